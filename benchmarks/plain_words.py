"""Counts phrases that the style rules replace, and draws random docstrings and functions for a reader to assess.

    python benchmarks/plain_words.py                       # counts of phrases in code and docs
    python benchmarks/plain_words.py --lines told          # lines in which a phrase, a regular expression, occurs
    python benchmarks/plain_words.py --sample 60 --seed 7  # docstrings and functions, drawn at random, as Markdown

A reader assesses a sample from its text alone: what does the function do, what does the docstring state?  Required are
95 % right answers at first reading, and no public docstring that is unclear.  Docstrings are printed without the code,
and functions without their docstrings and comments, so that neither explains the other.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
#: Phrases by regular expression, and what to write instead.
PHRASES = {
    r"\b[Ww]ho(ever|m|se)?\b": "which, that, the robot, the foot",
    r"\b(nobody|everyone|everybody|somebody)\b": "no foot, all feet, a contact",
    r"\btold\b": "given, configured, known from the map",
    r"\bcount(s|ed)? on\b": "assumes, relies on, uses",
    r"\b(trust|believ)\w*": "validated, estimated, assumed",
    r"\bsays\b": "returns, reports, states",
    r"\bknows?\b": "has, stores, models",
    r"\b(sees?|looked? at|looks (at|over|for|ahead))\b": "measures, checks, evaluates",
    r"\b(guards?|judged?s?)\b": "validation, validates",
    r"\brooms?\b": "subpackage, workspace, margin",
    r"\bshares?\b": "fraction, alpha, activation, scale",
    r"\bwanted\b": "desired, target, nominal",
    r"\basked\b": "requested, commanded",
    r"\bplaces?\b": "position, index, foothold",
    r"\b(kept|keeping)\b": "cached, stored, satisfied",
    r"\bspare\b": "margin, scratch, reserve",
    r"\b(most|least)\b": "max, min, at most, at least",
    r"\b(comes?|goes?) (and|or) (comes?|goes?)\b": "activated and deactivated",
    r"\b(comes? to|came to|comes? of)\b": "result, outcome",
    r"\b(gives? (up|in|way)|given up)\b": "aborts, relaxes, damps",
    r"\blet(s|ting)? go\b": "releases, closes",
    r"\b(on paper|in words|by itself)\b": "offline, as text, automatically",
    r"\b(of (its|one's|their|the caller's) own|yours own)\b": "custom, separate, own X",
    r"\bso (many|much|far|hard|fast)\b": "the value and its unit",
    r"\bwhat (must|it|the|is|was|of|they)\b": "the quantity's name",
    r"\b(felt|feels?|feeling)\b": "detected, estimated",
    r"\bway\b": "path, distance, direction, method",
    r"\bis no\b|\bare no\b|\bthat is none\b": "is not a, does not exist",
    r"\btouch(es|ing)?\b": "in contact, contact",
    r'"""(Of|What|Who|Whether|That|How)\b': "a verb or the quantity itself",
}


def code_files() -> list[Path]:
    """Returns the package's Python files."""
    return sorted((ROOT / "quaddyn").rglob("*.py"))


def text_files() -> list[Path]:
    """Returns the documentation's pages, the README and the changelog."""
    pages = [p for p in sorted((ROOT / "docs").rglob("*.md")) if "_static" not in p.parts and "_build" not in p.parts]
    return [*pages, ROOT / "README.md", ROOT / "CHANGELOG.md"]


def print_counts() -> None:
    """Prints how often each phrase occurs."""
    code = "\n".join(p.read_text(encoding="utf-8") for p in code_files())
    text = "\n".join(p.read_text(encoding="utf-8") for p in text_files())
    table = Table("phrase", "code", "docs", "instead")
    for phrase, instead in PHRASES.items():
        counts = [str(sum(1 for _ in re.finditer(phrase, found))) for found in (code, text)]
        table.add_row(phrase.replace("[", r"\["), *counts, instead)
    Console(width=120).print(table)


def print_lines(phrase: str) -> None:
    """Prints the lines in which a regular expression occurs."""
    for path in [*code_files(), *text_files()]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(phrase, line):
                print(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")


def definitions() -> Iterator[tuple[str, bool, ast.FunctionDef | ast.ClassDef]]:
    """Yields the name, whether it is public, and the tree of every function and class of the package."""
    for path in code_files():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield f"{module}.{node.name}", not node.name.startswith("_"), node


def print_sample(count: int, seed: int) -> None:
    """Prints docstrings and bodies of functions, each drawn at random."""
    generator = random.Random(seed)
    all_definitions = list(definitions())
    documented = [(name, public, node) for name, public, node in all_definitions if ast.get_docstring(node)]
    long_functions = [
        (n, p, f) for n, p, f in all_definitions if isinstance(f, ast.FunctionDef) and f.end_lineno - f.lineno > 5
    ]  # type: ignore[operator]
    print(f"# Docstrings (seed {seed})\n")
    for k, (name, public, node) in enumerate(generator.sample(documented, count), 1):
        kind = "class" if isinstance(node, ast.ClassDef) else f"def({ast.unparse(node.args)})"
        print(f"## D{k} {name} ({'public' if public else 'internal'}), {kind}\n\n{ast.get_docstring(node)}\n")
    print(f"# Functions (seed {seed})\n")
    for k, (name, public, node) in enumerate(generator.sample(long_functions, count), 1):
        if ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
        print(f"## F{k} {name} ({'public' if public else 'internal'})\n\n```python\n{ast.unparse(node)}\n```\n")


def main() -> None:
    """Prints the counts, the lines or the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", metavar="REGEX", help="print the lines in which a phrase occurs")
    parser.add_argument("--sample", type=int, metavar="COUNT", help="print this number of docstrings and of functions")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample")
    options = parser.parse_args()
    if options.lines:
        print_lines(options.lines)
    elif options.sample:
        print_sample(options.sample, options.seed)
    else:
        print_counts()


if __name__ == "__main__":
    main()

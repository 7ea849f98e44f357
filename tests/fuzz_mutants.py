"""Seeded mutations of URDF files, from flipped bytes to rewired trees, each of a named kind.

A mutation takes the file's bytes and a `random.Random` and returns other bytes, or None if it does not apply.
The kinds come in four families: *harmless* (a loader has to cope), *number*, *structure* and *byte*.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from xml.etree import ElementTree

Element = ElementTree.Element
Mutation = Callable[[bytes, random.Random], bytes | None]

PHYSICAL_TAG = re.compile(
    rb"<(mass|inertia|origin|axis|limit|dynamics|mimic|box|sphere|cylinder|mesh)\b[^<>]*>", re.DOTALL
)
NUMBERS = re.compile(
    rb"\b(value|i[xyz]{2}|xyz|rpy|lower|upper|effort|velocity|damping|friction|multiplier|offset|size|radius|length|scale)"
    rb"\s*=\s*([\"'])([^\"'<>]*)\2"
)


# -- numbers ----------------------------------------------------------------------------------------------------
def number(change: Callable[[str, random.Random], str]) -> Mutation:
    """A mutation that rewrites one component of one physical attribute by `change`."""

    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        spans = _number_spans(data)
        if not spans:
            return None
        start, end = rng.choice(spans)
        parts = data[start:end].decode("utf-8", "replace").split() or [""]
        index = rng.randrange(len(parts))
        parts[index] = change(parts[index], rng)
        return data[:start] + " ".join(parts).encode() + data[end:]

    return mutate


def _number_spans(data: bytes) -> list[tuple[int, int]]:
    return [
        (tag.start() + hit.start(3), tag.start() + hit.end(3))
        for tag in PHYSICAL_TAG.finditer(data)
        for hit in NUMBERS.finditer(tag.group())
    ]


def _value(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def nudge(text: str, rng: random.Random) -> str:
    """The number with a relative change of 1e-9 to 1e-4."""
    return repr(_value(text) * (1 + rng.choice((-1, 1)) * 10 ** rng.uniform(-9, -4)))


def respell(text: str, rng: random.Random) -> str:
    """The same number in another spelling."""
    x = _value(text)
    return rng.choice((f"{x:.17e}", f"{x!r}", f"{x:+.17g}", f"{x:.17g}", f"{x:.17E}"))


def negate(text: str, _: random.Random) -> str:
    """The number with opposite sign."""
    return text[1:] if text.startswith("-") else "-" + text


def zero(_: str, rng: random.Random) -> str:
    """Zero, signed or not."""
    return rng.choice(("0", "0.0", "-0", "0e5"))


def special(_: str, rng: random.Random) -> str:
    """NaN, infinity, or a number at or beyond the float range."""
    return rng.choice(
        "nan NaN -nan nan(0x1) inf -inf Infinity 1e308 -1e308 1e400 5e-324 -5e-324 1e-308 1e200 1e-200".split()
    )


def scale(text: str, rng: random.Random) -> str:
    """The number times 10^k, k from -12 to 12."""
    return repr(_value(text) * 10.0 ** rng.choice([k for k in range(-12, 13) if k]))


def comma(text: str, _: random.Random) -> str:
    """A decimal comma."""
    return text.replace(".", ",") if "." in text else text + ",5"


def units(text: str, rng: random.Random) -> str:
    """The number followed by a unit."""
    return text + rng.choice(("kg", "m", "deg", " m", "f", "%", "°"))


def count(text: str, rng: random.Random) -> str:
    """A component too many, or too few."""
    return rng.choice(("", text + " 0", text + " " + text, text + " 0 0 0"))


def garbage(_: str, rng: random.Random) -> str:
    """Text that is not a number, although some parsers accept it."""
    return rng.choice(
        "abc 1.2.3 0x1p3 0x10 1_0 --1 +-1 1e 1e+ e5 . - + ١ １ 1d3 ${pi/2} $(arg) NULL True 1;2 1/2 1-2".split()
    )


# -- structure --------------------------------------------------------------------------------------------------
def structure(change: Callable[[Element, random.Random], bool]) -> Mutation:
    """A mutation that edits the parsed file in place by `change`, which returns whether it was applicable."""

    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        try:
            robot = ElementTree.fromstring(data)
        except (ElementTree.ParseError, ValueError, LookupError):
            return None
        if not change(robot, rng):
            return None
        return bytes(ElementTree.tostring(robot, encoding=rng.choice(("utf-8", "us-ascii"))))

    return mutate


def _pick(robot: Element, rng: random.Random) -> tuple[Element, Element] | None:
    """A (parent, child) pair inside a link or a joint, or one of those themselves."""
    tops = [e for e in robot if e.tag in ("link", "joint")]
    if not tops:
        return None
    top = rng.choice(tops)
    pairs = [(robot, top)] + [(p, c) for p in top.iter() for c in p]
    return rng.choice(pairs)


def _joints(robot: Element) -> list[Element]:
    return [j for j in robot.findall("joint") if j.find("parent") is not None and j.find("child") is not None]


def delete_element(robot: Element, rng: random.Random) -> bool:
    """Removes an element."""
    if (pair := _pick(robot, rng)) is None:
        return False
    pair[0].remove(pair[1])
    return True


def duplicate_element(robot: Element, rng: random.Random) -> bool:
    """Duplicates an element."""
    if (pair := _pick(robot, rng)) is None:
        return False
    parent, child = pair
    parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(child))
    return True


def contradict_element(robot: Element, rng: random.Random) -> bool:
    """Duplicates an element with a different attribute."""
    if (pair := _pick(robot, rng)) is None or not pair[1].attrib:
        return False
    parent, child = pair
    twin = copy.deepcopy(child)
    key = rng.choice(list(twin.attrib))
    twin.set(key, twin.get(key, "") + "1")
    parent.insert(rng.randrange(len(parent) + 1), twin)
    return True


def move_element(robot: Element, rng: random.Random) -> bool:
    """Moves an element."""
    if (pair := _pick(robot, rng)) is None:
        return False
    parent, child = pair
    inside = set(child.iter())
    parent.remove(child)
    target = rng.choice([e for e in robot.iter() if e not in inside])
    target.insert(rng.randrange(len(target) + 1), child)
    return True


def swap_elements(robot: Element, rng: random.Random) -> bool:
    """Exchanges the contents of two elements with the same tag."""
    if (pair := _pick(robot, rng)) is None:
        return False
    others = [e for e in robot.iter(pair[1].tag) if e is not pair[1]]
    if not others or pair[1].tag in ("link", "joint"):
        return False
    a, b = pair[1], rng.choice(others)
    a.attrib, b.attrib = dict(b.attrib), dict(a.attrib)
    a[:], b[:] = list(b), list(a)
    return True


def rename_tag(robot: Element, rng: random.Random) -> bool:
    """Changes a tag: misspelled, capitalized, or that of another element."""
    if (pair := _pick(robot, rng)) is None:
        return False
    child = pair[1]
    tags = sorted({e.tag for e in robot.iter()})
    child.tag = rng.choice((child.tag.capitalize(), child.tag + "s", child.tag[:-1] or "x", rng.choice(tags)))
    return True


def edit_attribute(robot: Element, rng: random.Random) -> bool:
    """Removes or renames an attribute."""
    if (pair := _pick(robot, rng)) is None or not pair[1].attrib:
        return False
    child = pair[1]
    key = rng.choice(list(child.attrib))
    value = child.attrib.pop(key)
    if rng.random() < 0.5:
        child.set(rng.choice((key.upper(), key + "_", key[::-1] + "x")), value)
    return True


def reparent(robot: Element, rng: random.Random) -> bool:
    """Changes parent or child of a joint, which gives another tree or a cycle."""
    joints, links = _joints(robot), robot.findall("link")
    if not joints or not links:
        return False
    end = rng.choice(joints).find(rng.choice(("parent", "parent", "child")))
    assert end is not None
    end.set("link", rng.choice(links).get("name", ""))
    return True


def close_loop(robot: Element, rng: random.Random) -> bool:
    """Adds a second joint to a link that has a parent joint."""
    joints, links = _joints(robot), robot.findall("link")
    if not joints or not links:
        return False
    twin = copy.deepcopy(rng.choice(joints))
    twin.set("name", "loop_closing_joint")
    parent = twin.find("parent")
    assert parent is not None
    parent.set("link", rng.choice(links).get("name", ""))
    robot.append(twin)
    return True


def add_cycle(robot: Element, rng: random.Random) -> bool:
    """Adds a ring of links next to the tree."""
    n = rng.randrange(1, 4)
    for i in range(n):
        ElementTree.SubElement(robot, "link", name=f"ring_{i}")
        joint = ElementTree.SubElement(robot, "joint", name=f"ring_joint_{i}", type="fixed")
        ElementTree.SubElement(joint, "parent", link=f"ring_{i}")
        ElementTree.SubElement(joint, "child", link=f"ring_{(i + 1) % n}")
    return True


def retype(robot: Element, rng: random.Random) -> bool:
    """Changes a joint type to a valid or invalid one."""
    joints = robot.findall("joint")
    if not joints:
        return False
    kinds = ["revolute", "continuous", "prismatic", "fixed", "floating", "planar", "ball", "", "Revolute", "universal"]
    rng.choice(joints).set("type", rng.choice(kinds))
    return True


def clash_names(robot: Element, rng: random.Random) -> bool:
    """Changes a name to one that is used, reserved or unusual."""
    tops = [e for e in robot if e.tag in ("link", "joint")]
    if not tops:
        return False
    top = rng.choice(tops)
    fresh = rng.choice(
        ("universe", "root_joint", "", " ", "a\tb", "é", "..", "world", "x" * 300, rng.choice(tops).get("name", ""))
    )
    if rng.random() < 0.5:
        _rename(robot, top, fresh)
    else:
        top.set("name", fresh)
    return True


def add_root(robot: Element, rng: random.Random) -> bool:
    """Adds a link without a joint."""
    robot.insert(rng.randrange(len(robot) + 1), ElementTree.Element("link", name="stray_link"))
    return True


def add_chain(robot: Element, rng: random.Random) -> bool:
    """Adds a short or extremely long chain of massless fixed links."""
    links = robot.findall("link")
    if not links:
        return False
    above = rng.choice(links).get("name", "")
    for i in range(rng.choice((1, 3, 12, 12, 140, 400))):
        ElementTree.SubElement(robot, "link", name=f"mast_{i}")
        joint = ElementTree.SubElement(robot, "joint", name=f"mast_joint_{i}", type="fixed")
        ElementTree.SubElement(joint, "parent", link=above)
        ElementTree.SubElement(joint, "child", link=f"mast_{i}")
        above = f"mast_{i}"
    return True


def drop_leaf(robot: Element, rng: random.Random) -> bool:
    """Removes a leaf link with its joint, which leaves a valid robot."""
    joints = _joints(robot)
    parents = {_end(j, "parent") for j in joints}
    leaves = [j for j in joints if _end(j, "child") not in parents]
    if len(joints) < 3 or not leaves:
        return False
    joint = rng.choice(leaves)
    robot.remove(joint)
    for link in robot.findall("link"):
        if link.get("name") == _end(joint, "child"):
            robot.remove(link)
    return True


def shuffle(robot: Element, rng: random.Random) -> bool:
    """Changes the order of links and joints."""
    children = list(robot)
    rng.shuffle(children)
    robot[:] = children
    return True


def rename(robot: Element, rng: random.Random) -> bool:
    """Renames a link, a joint or the robot consistently."""
    tops = [robot, *(e for e in robot if e.tag in ("link", "joint"))]
    _rename(robot, rng.choice(tops), f"renamed_{rng.randrange(1000)}")
    return True


def _end(joint: Element, tag: str) -> str:
    end = joint.find(tag)
    return "" if end is None else end.get("link", "")


def _rename(robot: Element, top: Element, fresh: str) -> None:
    old = top.get("name")
    top.set("name", fresh)
    for joint in robot.findall("joint"):
        for end in joint:
            key = "joint" if end.tag == "mimic" else "link"
            if (top.tag == "joint") == (key == "joint") and end.get(key) == old and top.tag != "robot":
                end.set(key, fresh)


def drop_shapes(robot: Element, rng: random.Random) -> bool:
    """Removes some visuals or collisions."""
    tag = rng.choice(("visual", "collision"))
    for link in robot.findall("link"):
        for shape in link.findall(tag):
            if rng.random() < 0.5:
                link.remove(shape)
    return True


def add_extension(robot: Element, rng: random.Random) -> bool:
    """Adds an element for a simulator."""
    extra = ElementTree.SubElement(robot, "gazebo", reference=rng.choice(("", "nothing")))
    ElementTree.SubElement(extra, "mu1").text = "0.2"
    return True


# -- text -------------------------------------------------------------------------------------------------------
def add_comment(data: bytes, rng: random.Random) -> bytes | None:
    """Adds a comment between two elements."""
    gaps = [m.start() + 1 for m in re.finditer(rb">\s*<(?![!?])", data)]
    if not gaps:
        return None
    at = rng.choice(gaps)
    if b"<!--" in data and data.rfind(b"<!--", 0, at) > data.rfind(b"-->", 0, at):
        return None
    return data[:at] + b"<!-- <link name='x'/> & all that -->" + data[at:]


def respace(data: bytes, rng: random.Random) -> bytes | None:
    """Changes line ends and indentation."""
    return rng.choice((data.replace(b"\n", b"\r\n"), re.sub(rb">\s+<", b"><", data), data + b"\n\n\n"))


def doctype(data: bytes, rng: random.Random) -> bytes | None:
    """Adds a document type, with or without entities."""
    bombs = (
        b"<!DOCTYPE robot>",
        b'<!DOCTYPE robot SYSTEM "file:///etc/hostname">',
        b'<!DOCTYPE robot [<!ENTITY m "1">]>',
        b'<!DOCTYPE robot [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        b'<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///dev/zero">]>',
    )
    start = data.find(b"<robot")
    if start < 0:
        return None
    return data[:start] + rng.choice(bombs) + data[start:]


def reencode(data: bytes, rng: random.Random) -> bytes | None:
    """Changes the encoding, with a correct, wrong or missing declaration."""
    try:
        body = re.sub(r"^\s*<\?xml.*?\?>", "", data.decode(), count=1, flags=re.DOTALL)
    except UnicodeDecodeError:
        return None
    told, true = rng.choice(
        (
            ("utf-8", "utf-8"),
            ("UTF-8", "utf-8-sig"),
            ("iso-8859-1", "latin-1"),
            ("utf-16", "utf-16"),
            ("utf-16", "utf-8"),
            ("utf-8", "utf-16-le"),
            ("utf-7", "utf-7"),
            ("utf-32", "utf-32"),
            ("no-such-code", "utf-8"),
            ("cp1252", "cp1252"),
            ("rot13", "utf-8"),
        )
    )
    return f'<?xml version="1.0" encoding="{told}"?>{body}'.encode(true, "xmlcharrefreplace")


def namespace(data: bytes, rng: random.Random) -> bytes | None:
    """Adds a namespace to the whole file, or to all elements with one tag."""
    if data.count(b"<robot") != 1 or data.count(b"</robot>") != 1:
        return None
    if rng.random() < 0.4:
        return data.replace(b"<robot", b'<robot xmlns="http://www.ros.org/wiki/urdf"', 1)
    tag = rng.choice((b"link", b"joint", b"inertial", b"mass", b"axis", b"origin", b"visual"))
    data = re.sub(rb"(</?)" + tag + rb"(?=[\s/>])", rb"\1u:" + tag, data)
    return data.replace(b"<robot", b'<robot xmlns:u="http://www.ros.org/wiki/urdf"', 1)


def flip_byte(data: bytes, rng: random.Random) -> bytes | None:
    """Flips a bit in some bytes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def delete_bytes(data: bytes, rng: random.Random) -> bytes | None:
    """Removes a range of bytes."""
    at, n = rng.randrange(len(data)), rng.choice((1, 1, 2, 16, 200))
    return data[:at] + data[at + n :]


def insert_bytes(data: bytes, rng: random.Random) -> bytes | None:
    """Inserts bytes that parsers may not expect."""
    at = rng.randrange(len(data))
    what = (
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"<",
        b">",
        b'"',
        b"&",
        b"&#0;",
        b"]]>",
        b"<![CDATA[",
        b"-->",
        b"9",
        b" ",
    )
    return data[:at] + rng.choice(what) * rng.choice((1, 1, 3, 1000)) + data[at:]


def duplicate_span(data: bytes, rng: random.Random) -> bytes | None:
    """Duplicates a range of bytes."""
    at, n = rng.randrange(len(data)), rng.choice((1, 8, 60, 500, 4000))
    return data[: at + n] + data[at : at + n] + data[at + n :]


def truncate(data: bytes, rng: random.Random) -> bytes | None:
    """Truncates the file, or appends it to itself."""
    return data[: rng.randrange(len(data))] if rng.random() < 0.8 else data + data


#: All kinds: name, weight, mutation.  About a third is harmless, so that rejecting everything would be noticed.
KINDS: dict[str, tuple[float, Mutation]] = {
    "harmless: untouched": (1, lambda data, rng: data),
    "harmless: comment": (2, add_comment),
    "harmless: whitespace": (2, respace),
    "harmless: shuffle": (2, structure(shuffle)),
    "harmless: rename": (4, structure(rename)),
    "harmless: fewer shapes": (3, structure(drop_shapes)),
    "harmless: extension": (2, structure(add_extension)),
    "harmless: leaf dropped": (4, structure(drop_leaf)),
    "harmless: respelt number": (4, number(respell)),
    "harmless: nudged number": (6, number(nudge)),
    "number: sign": (5, number(negate)),
    "number: zero": (5, number(zero)),
    "number: special": (6, number(special)),
    "number: scale": (7, number(scale)),
    "number: comma": (2, number(comma)),
    "number: units": (2, number(units)),
    "number: count": (3, number(count)),
    "number: garbage": (4, number(garbage)),
    "structure: delete": (5, structure(delete_element)),
    "structure: duplicate": (4, structure(duplicate_element)),
    "structure: contradict": (4, structure(contradict_element)),
    "structure: move": (4, structure(move_element)),
    "structure: swap": (4, structure(swap_elements)),
    "structure: tag": (3, structure(rename_tag)),
    "structure: attribute": (4, structure(edit_attribute)),
    "structure: reparent": (4, structure(reparent)),
    "structure: loop": (2, structure(close_loop)),
    "structure: cycle": (2, structure(add_cycle)),
    "structure: joint type": (4, structure(retype)),
    "structure: name": (4, structure(clash_names)),
    "structure: second root": (1, structure(add_root)),
    "structure: chain": (2, structure(add_chain)),
    "byte: doctype": (2, doctype),
    "byte: encoding": (2, reencode),
    "byte: namespace": (1, namespace),
    "byte: flip": (4, flip_byte),
    "byte: delete": (3, delete_bytes),
    "byte: insert": (3, insert_bytes),
    "byte: duplicate": (2, duplicate_span),
    "byte: truncate": (2, truncate),
}


def mutate(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """A mutant of `data` and its kind; one in eight carries two or three mutations and is called "stacked"."""
    names, weights = list(KINDS), [w for w, _ in KINDS.values()]
    rounds = 1 if rng.random() < 0.875 else rng.randrange(2, 4)
    applied: list[str] = []
    while len(applied) < rounds:
        name = rng.choices(names, weights)[0]
        mutant = KINDS[name][1](data, rng)
        if mutant:  # mutations that give an empty file are skipped
            data = mutant
            applied.append(name)
    return (applied[0] if rounds == 1 else "stacked"), data

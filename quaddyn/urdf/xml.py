"""Safe XML: bytes in, a small tree of `XmlElement` with line numbers out, or one `ModelError`.

Document types, entities and external references are refused (defusedxml); depth and size are bounded while
reading, so that no input can exhaust the stack or the memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import defusedxml
import defusedxml.ElementTree

from ..errors import ModelError
from .tree import Where

MAX_BYTES = 16 * 1024 * 1024
MAX_NESTING = 64  # a URDF needs 7; extensions such as <gazebo> nest deeper
MAX_ELEMENTS = 200_000
MAX_TEXT = 64  # characters of an element's text that are kept: a number
#: What the name of a prefix's namespace begins with where the document declares none.
UNDECLARED = "undeclared:"
MAX_MESSAGE_LENGTH = 400  # characters of a file's own words that a message repeats


def shorten(words: str, most: int = MAX_MESSAGE_LENGTH) -> str:
    """Words for a message, without their middle where they are long."""
    return words if len(words) <= most else f"{words[: most // 2]} ... {words[-most // 4 :]}"


class XmlElement:
    """XML element with its `line` in the file; `text` holds about the first `MAX_TEXT` characters of its text."""

    __slots__ = ("attrib", "children", "file", "line", "parent", "tag", "text")

    def __init__(self, tag: str, attrib: dict[str, str], line: int, parent: XmlElement | None, file: str) -> None:
        self.tag, self.attrib, self.line, self.parent, self.file = tag, attrib, line, parent, file
        self.children: list[XmlElement] = []
        self.text = ""

    def __iter__(self) -> Iterator[XmlElement]:
        return iter(self.children)

    def all(self, tag: str) -> list[XmlElement]:
        """Returns the direct children with this tag."""
        return [c for c in self.children if c.tag == tag]

    @property
    def where(self) -> Where:
        """File, line and the path of tags from the nearest named ancestor down to this element."""
        parts: list[str] = []
        node: XmlElement | None = self
        while node is not None and node.parent is not None:  # <robot> is the same for all
            name = node.attrib.get("name")
            parts.append(
                f'<{shorten(node.tag)} name="{shorten(name)}">' if name is not None else f"<{shorten(node.tag)}>"
            )
            if name is not None:
                break
            node = node.parent
        return Where(self.file, self.line, "".join(reversed(parts)) or f"<{shorten(self.tag)}>")

    def same(self, other: XmlElement) -> bool:
        """Returns whether tags, attributes and children are equal; text is not compared."""
        return (
            self.tag == other.tag
            and self.attrib == other.attrib
            and len(self.children) == len(other.children)
            and all(a.same(b) for a, b in zip(self.children, other.children, strict=True))
        )


class _Builder:
    """Target of the XML parser; bounds the tree while it grows."""

    def __init__(self, file: str) -> None:
        self.file, self.expat = file, None
        self.root: XmlElement | None = None
        self.open: list[XmlElement] = []
        self.count = 0

    def start(self, tag: str, attrib: dict[str, str]) -> None:
        self.count += 1
        line = self.expat.CurrentLineNumber if self.expat is not None else 0
        parent = self.open[-1] if self.open else None
        element = XmlElement(tag, attrib, line, parent, self.file)
        if len(self.open) >= MAX_NESTING:
            raise ModelError(f"{element.where}: elements are nested more than {MAX_NESTING} deep; reduce the nesting")
        if self.count > MAX_ELEMENTS:
            raise ModelError(
                f"{element.where}: the file has more than {MAX_ELEMENTS} elements, which is not accepted; remove "
                "elements that are not needed"
            )
        if parent is None:
            self.root = element
        else:
            parent.children.append(element)
        self.open.append(element)

    def data(self, text: str) -> None:
        if len(self.open[-1].text) < MAX_TEXT:
            self.open[-1].text += text[:MAX_TEXT]

    def end(self, tag: str) -> None:
        self.open.pop()

    def close(self) -> XmlElement | None:
        return self.root


def read_xml(data: bytes | str, file: str) -> XmlElement:
    """Parses XML without document types, entities or external references.

    Args:
        data: the document, at most 16 MB.
        file: its name, for messages.

    Raises:
        ModelError: not well-formed, a document type or an entity, too large, too deep.
    """
    if isinstance(data, str):
        if "\0" in data:  # expat would take every other one for UTF-16
            raise ModelError(
                f"{file}: the text has a NUL character at index {data.index(chr(0))}, which XML does not allow"
            )
        try:
            size = len(data.encode())
        except UnicodeEncodeError as error:
            raise ModelError(f"{file}: the text is not valid Unicode ({error.reason} at index {error.start})") from None
    else:
        size = len(data)
    if size > MAX_BYTES:
        raise ModelError(
            f"{file}: the file has {size} bytes, but at most {MAX_BYTES} are accepted; move meshes into separate files"
        )
    try:
        try:
            root = _parse_document(data, file)
        except SyntaxError as error:
            if "unbound prefix" not in str(error):
                raise
            root = _parse_document(_declare_prefixes(data), file)
    except ModelError:
        raise
    except defusedxml.DefusedXmlException as error:
        raise ModelError(
            f"{file}: document types, entities and external references are not accepted ({type(error).__name__}); "
            "remove the <!DOCTYPE ...> part"
        ) from None
    except (SyntaxError, ValueError, LookupError, OverflowError) as error:  # ParseError is a SyntaxError
        raise ModelError(f"{file}: the file is not well-formed XML: {error}") from None
    if root is None:
        raise ModelError(f"{file}: the file has no XML element; expected <robot>")
    assert isinstance(root, XmlElement)
    return root


def _parse_document(data: bytes | str, file: str) -> XmlElement | None:
    """Parses a document and returns its root element."""
    builder = _Builder(file)
    parser: Any = defusedxml.ElementTree.DefusedXMLParser(target=builder, forbid_dtd=True)
    builder.expat = parser.parser
    parser.feed(data)
    root: XmlElement | None = parser.close()
    return root


#: A prefix where it is used and where it is declared; a tag as it begins; what may stand before the first one.
_USED_PREFIX = re.compile(r"[<\s/]([A-Za-z_][\w.-]*):[A-Za-z_]")
_DECLARED_PREFIX = re.compile(r"\sxmlns:([A-Za-z_][\w.-]*)\s*=")
_TAG_START = re.compile(r"<[A-Za-z_][\w:.-]*")
_BLANK = re.compile("[\\s\ufeff\u00ef\u00bb\u00bf]*")  # with the three bytes of a byte order mark


def _declare_prefixes(data: bytes | str) -> bytes | str:
    """Adds a namespace declaration to the first tag for every undeclared prefix; line numbers do not change.

    A document whose encoding does not contain ASCII stays as it is.
    """
    text = data if isinstance(data, str) else data.decode("latin-1")  # byte by byte
    at = 0
    while True:
        blank = _BLANK.match(text, at)
        at = blank.end() if blank else at
        closing = "-->" if text.startswith("<!--", at) else "?>" if text.startswith("<?", at) else ""
        end = text.find(closing, at) if closing else -1
        if end < 0:
            break
        at = end + len(closing)
    first = _TAG_START.match(text, at)
    if first is None:
        return data
    here = set(_DECLARED_PREFIX.findall(text[first.end() - 1 : text.find(">", at)]))
    wanting = sorted(set(_USED_PREFIX.findall(text)) - here - {"xml", "xmlns"})
    words = "".join(f' xmlns:{prefix}="{UNDECLARED}{prefix}"' for prefix in wanting)
    text = text[: first.end()] + words + text[first.end() :]
    return text if isinstance(data, str) else text.encode("latin-1")

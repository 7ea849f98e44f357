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
#: Start of the namespace names of prefixes that the document does not declare.
UNDECLARED = "undeclared:"
MAX_MESSAGE_LENGTH = 400  # largest number of characters of a file that a message repeats
#: Elements whose names are optional and need not be unique, or have no meaning, so that they do not identify a part of
#: the robot.
LABELLED_ELEMENTS = frozenset(
    "visual collision material inertial origin geometry mass inertia box cylinder sphere capsule mesh axis limit "
    "dynamics mimic parent child color".split()
)


def shorten(text: str, max_length: int = MAX_MESSAGE_LENGTH) -> str:
    """Returns a text for a message; the middle of a longer text is left out."""
    return text if len(text) <= max_length else f"{text[: max_length // 2]} ... {text[-max_length // 4 :]}"


class XmlElement:
    """XML element with its `line` in the file; `text` holds about the first `MAX_TEXT` characters of its text."""

    __slots__ = ("attrib", "children", "file", "line", "parent", "tag", "text")

    def __init__(self, tag: str, attrib: dict[str, str], line: int, parent: XmlElement | None, file: str) -> None:
        self.tag, self.attrib, self.line, self.parent, self.file = tag, attrib, line, parent, file
        self.children: list[XmlElement] = []
        self.text = ""

    def __iter__(self) -> Iterator[XmlElement]:
        return iter(self.children)

    def children_with_tag(self, tag: str) -> list[XmlElement]:
        """Returns the direct children with this tag."""
        return [c for c in self.children if c.tag == tag]

    @property
    def where(self) -> Where:
        """File, line and the path of tags from the nearest ancestor with an identifying name to this element."""
        parts: list[str] = []
        node: XmlElement | None = self
        while node is not None and node.parent is not None:  # <robot> is the same for all
            name = node.attrib.get("name")
            parts.append(
                f'<{shorten(node.tag)} name="{shorten(name)}">' if name is not None else f"<{shorten(node.tag)}>"
            )
            if name is not None and node.tag not in LABELLED_ELEMENTS:
                break
            node = node.parent
        return Where(self.file, self.line, "".join(reversed(parts)) or f"<{shorten(self.tag)}>")

    def equals(self, other: XmlElement) -> bool:
        """Returns whether tags, attributes and children are equal; text is not compared."""
        return (
            self.tag == other.tag
            and self.attrib == other.attrib
            and len(self.children) == len(other.children)
            and all(a.equals(b) for a, b in zip(self.children, other.children, strict=True))
        )


class _Builder:
    """Target of the XML parser; bounds the tree while it grows."""

    def __init__(self, file: str) -> None:
        self.file, self.expat = file, None
        self.root: XmlElement | None = None
        self.open_elements: list[XmlElement] = []
        self.n_elements = 0

    def start(self, tag: str, attrib: dict[str, str]) -> None:
        self.n_elements += 1
        line = self.expat.CurrentLineNumber if self.expat is not None else 0
        parent = self.open_elements[-1] if self.open_elements else None
        element = XmlElement(tag, attrib, line, parent, self.file)
        if len(self.open_elements) >= MAX_NESTING:
            raise ModelError(f"{element.where}: elements are nested more than {MAX_NESTING} deep; reduce the nesting")
        if self.n_elements > MAX_ELEMENTS:
            raise ModelError(
                f"{element.where}: the file has more than {MAX_ELEMENTS} elements, which is not accepted; remove "
                "elements that are not needed"
            )
        if parent is None:
            self.root = element
        else:
            parent.children.append(element)
        self.open_elements.append(element)

    def data(self, text: str) -> None:
        if len(self.open_elements[-1].text) < MAX_TEXT:
            self.open_elements[-1].text += text[:MAX_TEXT]

    def end(self, tag: str) -> None:
        self.open_elements.pop()

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
        if "\0" in data:  # expat would read a text with NUL characters as UTF-16
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


#: Use of a prefix, declaration of a prefix, start of a tag, and characters allowed before the first tag.
_USED_PREFIX = re.compile(r"[<\s/]([A-Za-z_][\w.-]*):[A-Za-z_]")
_DECLARED_PREFIX = re.compile(r"\sxmlns:([A-Za-z_][\w.-]*)\s*=")
_TAG_START = re.compile(r"<[A-Za-z_][\w:.-]*")
_BLANK = re.compile("[\\s\ufeff\u00ef\u00bb\u00bf]*")  # with the three bytes of a byte order mark


def _declare_prefixes(data: bytes | str) -> bytes | str:
    """Adds a namespace declaration to the first tag for every undeclared prefix; line numbers do not change.

    A document whose encoding does not contain ASCII stays as it is.
    """
    text = data if isinstance(data, str) else data.decode("latin-1")  # byte by byte
    position = 0
    while True:
        blank = _BLANK.match(text, position)
        position = blank.end() if blank else position
        closing = "-->" if text.startswith("<!--", position) else "?>" if text.startswith("<?", position) else ""
        end = text.find(closing, position) if closing else -1
        if end < 0:
            break
        position = end + len(closing)
    first_tag = _TAG_START.match(text, position)
    if first_tag is None:
        return data
    declared = set(_DECLARED_PREFIX.findall(text[first_tag.end() - 1 : text.find(">", position)]))
    undeclared = sorted(set(_USED_PREFIX.findall(text)) - declared - {"xml", "xmlns"})
    declarations = "".join(f' xmlns:{prefix}="{UNDECLARED}{prefix}"' for prefix in undeclared)
    text = text[: first_tag.end()] + declarations + text[first_tag.end() :]
    return text if isinstance(data, str) else text.encode("latin-1")

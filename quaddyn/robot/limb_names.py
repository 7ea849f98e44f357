"""Classification of limbs by the names in a file: leg or other limb, and position on the robot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from .bodies import CompositeBody

_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: Parts of names of legs and of other limbs.  Short ones count as whole words only.
_LEG_WORDS = ("leg", "hip", "toe", "haa", "hfe", "kfe", "paw")
_LEG_PARTS = ("thigh", "calf", "shank", "knee", "ankle", "femur", "tibia", "coxa", "foot", "hock")
_OTHER_WORDS = ("arm", "hand", "neck", "head", "tail", "tool", "pan", "tilt", "pole", "cart", "mast")
_OTHER_PARTS = (
    "shoulder", "elbow", "wrist", "gripper", "finger", "thumb", "palm", "forearm", "camera", "caster", "propeller",
    "antenna", "lidar",
)  # fmt: skip
_AHEAD = {"front": 1, "fore": 1, "middle": 0, "mid": 0, "rear": -1, "hind": -1, "back": -1}
_ASIDE = {"left": 1, "right": -1}
#: Pairs of letters such as "FL", "LF" or "hr": front or rear (hind, back) and left or right, in either order; an r
#: before an r or an l means the rear.
_CORNERS = {
    word: (ahead, aside)
    for row, ahead in (("f", 1), ("m", 0), ("h", -1), ("b", -1))
    for side, aside in (("l", 1), ("r", -1))
    for word in (row + side, side + row)
} | {"rl": (-1, 1), "lr": (-1, 1), "rr": (-1, -1)}
_SIDE_LETTERS = {"l": 1, "r": -1}


def collect_names(bodies: Sequence[CompositeBody], indices: Iterable[int]) -> list[str]:
    """Returns the names of the joints and links of these bodies."""
    out = []
    for i in indices:
        joint = bodies[i].joint
        out += [] if joint is None else [joint.name]
        out += [link.name for link, _ in bodies[i].links]
    return out


def classify_names(names: Iterable[str]) -> int:
    """Returns 1 if the names are those of a leg, -1 if they are those of another limb, 0 if they show neither."""
    other = False
    for name in names:
        words = [word.lower() for word in _TOKEN.findall(name)]
        joined = "".join(words).replace("footprint", "")
        if any(_is_word(word, _LEG_WORDS) for word in words) or any(part in joined for part in _LEG_PARTS):
            return 1
        other |= any(_is_word(word, _OTHER_WORDS) for word in words) or any(part in joined for part in _OTHER_PARTS)
    return -1 if other else 0


def positions_from_names(names_by_limb: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, int]]:
    """Returns front (1) or rear (-1), and left (1) or right (-1), by the words in the names of each limb; 0 if unknown.

    Words that all limbs have, such as "HR" for a hip that rolls, do not show a position.
    """
    words = {
        limb: [[word.lower() for word in _TOKEN.findall(name)] for name in names]
        for limb, names in names_by_limb.items()
    }
    common = set.intersection(*({word for name in names for word in name} for names in words.values()))
    return {limb: _position([[w for w in name if w not in common] for name in names]) for limb, names in words.items()}


def _position(names: Iterable[Sequence[str]]) -> tuple[int, int]:
    """Returns the position by the words of each name of one limb, in lower case."""
    ahead = aside = 0
    for words in names:
        along = [_AHEAD[word] for word in words if word in _AHEAD]
        across = [_ASIDE[word] for word in words if word in _ASIDE]
        corner = next((_CORNERS[word] for word in words if word in _CORNERS), None)
        if corner is not None and not along and not across:
            along, across = [corner[0]], [corner[1]]
        if not across and words:
            across = [_SIDE_LETTERS[words[0][0]]] if _is_side_prefix(words[0]) else []
            across = across or ([_SIDE_LETTERS[words[-1]]] if words[-1] in _SIDE_LETTERS else [])
        ahead += sum(along)
        aside += sum(across)
    return (ahead > 0) - (ahead < 0), (aside > 0) - (aside < 0)


def _is_word(word: str, known: Sequence[str]) -> bool:
    """Returns whether a word is a known one, also with a side letter before it, as in "lleg", or an s behind it."""
    return word in known or (word[1:] in known and word[0] in _SIDE_LETTERS) or word.rstrip("s") in known


def _is_side_prefix(word: str) -> bool:
    """Returns whether a word is a side letter, or a side letter before a word for a limb."""
    return word in _SIDE_LETTERS or (
        word[0] in _SIDE_LETTERS and word[1:] in (*_LEG_WORDS, *_LEG_PARTS, *_OTHER_WORDS, *_OTHER_PARTS)
    )

"""Leg recognition: `recognize_legs` decides which limbs of a robot are its legs.

Every arrangement of limbs that could walk or stand is a hypothesis.  Its score is the product of factors in (0, 1],
each 1 where the evidence fully supports the hypothesis: legs have equal lengths, mirror each other, reach a common
ground below the trunk, no similar limb is left out, and their names are those of legs.  Names alone do not decide:
files without meaningful names are classified by the other factors.

Names in the file classify a limb as leg or other limb, and give its position on the robot.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import UnknownNameError
from ..urdf.tree import FILE_ANGLE_TOLERANCE, Array, Finding, Where
from .bodies import CompositeBody
from .limbs import (
    LEG_PLACES,
    MAX_JOINTS,
    MAX_SPINE,
    MIN_JOINTS,
    Limb,
    bodies_in_trunk_frame,
    forward_and_left,
    planar_base_index,
    trunk_index,
    trunk_placement,
)

#: Words of a name: Latin letters without accents, by case; or single Chinese and Japanese characters.
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[\u3040-\u30ff\u4e00-\u9fff]")
#: Parts of names of legs and of other limbs.  Short ones count as whole words only.  After the English ones come those
#: in German, French, Spanish, Italian, Portuguese, Chinese and Japanese.
_LEG_WORDS = (
    "leg", "hip", "toe", "haa", "hfe", "kfe", "paw",
    "bein", "fuss", "zehe", "pfote", "jambe", "patte", "pied", "pierna", "pata", "gamba", "zampa", "anca", "piede",
    "perna", "pe", "ashi", "hiza", "momo", "sune", "koshi",
)  # fmt: skip
_LEG_PARTS = (
    "thigh", "calf", "shank", "knee", "ankle", "femur", "tibia", "coxa", "foot", "hock",
    "schenkel", "hueft", "huft", "knie", "knoechel", "hanche", "cuisse", "genou", "cheville", "cadera", "muslo",
    "rodilla", "pantorrilla", "tobillo", "coscia", "ginocchio", "caviglia", "quadril", "joelho", "tornozelo",
    "腿", "髋", "膝", "足", "脚", "踝", "股",
)  # fmt: skip
_OTHER_WORDS = (
    "arm", "hand", "neck", "head", "tail", "tool", "pan", "tilt", "pole", "cart", "mast",
    "kopf", "hals", "schwanz", "bras", "tete", "queue", "mano", "cabeza", "cuello", "testa", "collo", "braccio",
    "braco", "cabeca", "pescoco", "ude", "kubi", "atama",
)  # fmt: skip
_OTHER_PARTS = (
    "shoulder", "elbow", "wrist", "gripper", "finger", "thumb", "palm", "forearm", "camera", "caster", "propeller",
    "antenna", "lidar",
    "schulter", "ellbogen", "handgelenk", "greifer", "epaule", "coude", "poignet", "pince", "brazo", "hombro",
    "muneca", "pinza", "spalla", "gomito", "polso", "ombro", "cotovelo", "punho",
    "臂", "肘", "腕", "肩", "手", "头", "頭", "颈",
)  # fmt: skip
_AHEAD = {"front": 1, "fore": 1, "middle": 0, "mid": 0, "rear": -1, "hind": -1, "back": -1} | {
    "avant": 1, "arriere": -1, "anterior": 1, "posterior": -1, "davanti": 1, "dietro": -1, "mae": 1, "ushiro": -1,
    "前": 1, "中": 0, "后": -1, "後": -1,
}  # fmt: skip
_ASIDE = {"left": 1, "right": -1} | {
    "links": 1, "rechts": -1, "linke": 1, "rechte": -1, "gauche": 1, "hidari": 1, "migi": -1, "左": 1, "右": -1,
}  # fmt: skip
#: Beginnings of words that are declined or compounded.
_AHEAD_STEMS = {
    "vorn": 1, "vorder": 1, "hinten": -1, "hinter": -1, "delanter": 1, "traser": -1, "anterior": 1, "posterior": -1,
    "dianteir": 1, "traseir": -1,
}  # fmt: skip
_ASIDE_STEMS = {
    "droit": -1, "izquierd": 1, "derech": -1, "sinistr": 1, "destr": -1, "esquerd": 1, "direit": -1,
}  # fmt: skip
#: Pairs of letters such as "FL", "LF" or "hr": front or rear (hind, back) and left or right, in either order; an r
#: before an r or an l means the rear, and a v the German "vorn".
_CORNERS = {
    word: (ahead, aside)
    for row, ahead in (("f", 1), ("v", 1), ("m", 0), ("h", -1), ("b", -1))
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


def _split_words(name: str) -> list[str]:
    """Returns the words of a name, in lower case and without accents."""
    plain = name if name.isascii() else unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    return [word.lower() for word in _TOKEN.findall("".join(c for c in plain if not unicodedata.combining(c)))]


def _sign(word: str, known: Mapping[str, int], stems: Mapping[str, int]) -> int | None:
    """Returns the sign of a known word, or of one with a known beginning; None for other words."""
    if word in known:
        return known[word]
    return next((sign for stem, sign in stems.items() if word.startswith(stem)), None)


def classify_names(names: Iterable[str]) -> int:
    """Returns 1 if the names are those of a leg, -1 if they are those of another limb, 0 if they show neither."""
    other = False
    for name in names:
        words = _split_words(name)
        joined = "".join(words).replace("footprint", "")
        if any(_is_word(word, _LEG_WORDS) for word in words) or any(part in joined for part in _LEG_PARTS):
            return 1
        other |= any(_is_word(word, _OTHER_WORDS) for word in words) or any(part in joined for part in _OTHER_PARTS)
    return -1 if other else 0


def positions_from_names(names_by_limb: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, int]]:
    """Returns front (1) or rear (-1), and left (1) or right (-1), by the words in the names of each limb; 0 if unknown.

    Words that all limbs have, such as "HR" for a hip that rolls, do not show a position.
    """
    words = {limb: [_split_words(name) for name in names] for limb, names in names_by_limb.items()}
    common = set.intersection(*({word for name in names for word in name} for names in words.values()))
    return {limb: _position([[w for w in name if w not in common] for name in names]) for limb, names in words.items()}


def _position(names: Iterable[Sequence[str]]) -> tuple[int, int]:
    """Returns the position by the words of each name of one limb, in lower case."""
    ahead = aside = 0
    for words in names:
        along = [sign for word in words if (sign := _sign(word, _AHEAD, _AHEAD_STEMS)) is not None]
        across = [sign for word in words if (sign := _sign(word, _ASIDE, _ASIDE_STEMS)) is not None]
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


#: A hypothesis below this score is none: the robot has no legs.
MIN_SCORE = 0.2
#: A runner-up with at least this fraction of the best score makes the choice a guess, and so does a score below this.
GUESS_RATIO, GUESS_SCORE = 0.85, 0.45
#: Minimum ratio of scores for another axis of the base frame than z to count as the upward one.
ROTATED_FRAME_RATIO = 2.0
#: A serial chain of at most this many joints that is all of a robot may be a leg; a longer one is an arm.
MAX_LONE_LEG = 4
#: Score of such a chain whose names are not those of a leg, if the file lets its base move; on a fixed base it is none.
UNNAMED_LONE_LEG_SCORE = 0.4
#: The longest leg of a quadruped is at most this many times as long as the shortest.
MAX_LENGTH_RATIO = 2.5
#: Maximum number of limbs of which combinations are tried, and the same for six legs.
MAX_LIMBS, MAX_HEXAPOD_LIMBS = 16, 9
#: A limb of at most this length [m] is none: all its axes intersect at its foot.
MIN_REACH = 1e-9
#: Lowest extension of a leg that bears, as a fraction of its length.
MIN_EXTENSION = 0.3
#: Factors of the score for a limb whose names do not identify it, and for one with the names of another part.
UNNAMED_FACTOR, MISNAMED_FACTOR = 0.95, 0.35
#: Factors for another limb like the legs that is left out: as low as they are or named as a leg, and any other.
OMITTED_LEG_FACTOR, OMITTED_LIMB_FACTOR = 0.3, 0.75
#: Center of mass of a torso above the hips of a biped, as a fraction of the leg length.
MIN_TORSO_RISE = 0.15
#: A limb beside a leg, nearer than this fraction of the least distance between legs, is the other half of its drive.
DRIVE_DISTANCE_FRACTION = 0.4

#: Ratio of the distances between the hips of sprawling legs along y and x above which the robot faces along y.
MAX_ASPECT_OF_SQUARE = 1.2
#: Legs of a planar base whose hips are farther apart than this fraction of their length are a front and a rear leg.
MIN_ROW_DISTANCE = 0.1

KINDS = ("quadruped", "hexapod", "biped", "leg", "none")
#: Names of the legs of a quadruped with one leg ahead, one on each side and one behind.
PLUS = ("F", "L", "R", "B")


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """Assumed legs by name, the `kind` of robot (one of `KINDS`) and the score in [0, 1]."""

    kind: str
    legs: Mapping[str, Limb]
    score: float

    def __str__(self) -> str:
        """Returns the kind and the first joint of each leg."""
        if not self.legs:
            return "no legs"
        runs = (f"{name} from {limb.chain.joints[0].name!r}" for name, limb in self.legs.items())  # type: ignore[union-attr]
        return f"{self.kind}: {', '.join(runs)}"


NO_LEGS = Hypothesis("none", {}, MIN_SCORE)
_ORIGIN = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class LegRecognition:
    """Result of leg recognition: the best hypothesis, and findings on it, on the next best and on the base frame."""

    best: Hypothesis
    findings: tuple[Finding, ...] = field(default=())


def parse_legs_argument(
    legs: Mapping[str, Sequence[str]] | str | None,
) -> tuple[str | None, Mapping[str, Sequence[str]] | None]:
    """Splits the argument `legs` of `load` into the kind of robot and the joint names by leg; one of them is None.

    Raises:
        UnknownNameError: a text that is not a kind of robot.
    """
    if not isinstance(legs, str):
        return None, legs
    if legs not in KINDS:
        raise UnknownNameError("kind of robot in legs=", legs, KINDS)
    return legs, None


def recognize_legs(
    bodies: Sequence[CompositeBody],
    limbs: Sequence[Limb],
    file: str,
    requested_kind: str | None = None,
    *,
    floats: bool = False,
) -> LegRecognition:
    """Returns the most likely legs among `limbs`.

    Args:
        bodies: composite bodies of the robot.
        limbs: limbs as returned by `find_limbs`.
        file: name of the file, for findings.
        requested_kind: kind of robot whose best hypothesis is returned, whatever its score.  None: the best of all
            kinds.
        floats: whether the base floats in the file.
    """
    candidates = [_make_candidate(bodies, limb) for limb in limbs if limb.reach > MIN_REACH][:MAX_LIMBS]
    ranked = _rank_hypotheses(bodies, candidates, floats=floats)
    if requested_kind is not None:
        best, _ = _rename_by_file_names(
            bodies, next((x for x in ranked if x.kind == requested_kind), NO_LEGS), Where(file, 0, "legs")
        )
        return LegRecognition(best)
    best = ranked[0]
    where, findings = Where(file, 0, "legs"), list[Finding]()
    turned = _find_other_up_axis(bodies, candidates, best.score)
    if turned is not None:
        up, rotation, other = turned
        found = f"by its limbs this robot is a {other.kind} whose vertical axis is {up}, not z"
        reason = f"the base frame is rotated: {found}; no legs are assumed"
        findings.append(
            Finding("warning", where, reason, f"pass base={_format_rotation(rotation)}, or name the legs by legs=")
        )
        best = NO_LEGS
    named, warnings = _rename_by_file_names(bodies, best, where)
    findings += _report(bodies, named, ranked, bool(candidates), where)
    return LegRecognition(named, (*findings, *warnings))


# -- evidence --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """Limb, class of its names (1 for a leg, -1 for another limb, 0 unknown) and its geometry as plain floats."""

    limb: Limb
    named: int
    joints: int
    reach: float
    hip: tuple[float, float, float]
    tip: tuple[float, float, float]
    sideways: tuple[float, float]  # absolute components of the knee axis; zeros for a sprawling leg

    @property
    def hang(self) -> float:
        """Distance of the foot below the hip, as a fraction of the leg length, with all joints at zero."""
        return (self.hip[2] - self.tip[2]) / max(self.reach, 1e-9)


def _make_candidate(bodies: Sequence[CompositeBody], limb: Limb) -> _Candidate:
    """Returns the candidate of a limb."""
    kind = classify_names(collect_names(bodies, limb.indices))
    return _fill_geometry(_Candidate(limb, kind, limb.chain.n, limb.reach, _ORIGIN, _ORIGIN, (0.0, 0.0)))


def _fill_geometry(candidate: _Candidate, turn: Array | None = None) -> _Candidate:
    """Returns a copy of a candidate with `hip`, `tip` and `sideways` of its limb, which is first rotated by `turn`."""
    limb = candidate.limb
    if turn is not None:
        first, bending = turn @ limb.first_axis, turn @ limb.bending_axis
        limb = replace(limb, origin=turn @ limb.origin, tip=turn @ limb.tip, first_axis=first, bending_axis=bending)
    x, y, _ = [0.0] * 3 if limb.sprawls else np.abs(limb.bending_axis).tolist()
    hip, tip = tuple(limb.origin.tolist()), tuple(limb.tip.tolist())
    return replace(candidate, limb=limb, hip=hip, tip=tip, sideways=(x, y))


def _rank_hypotheses(
    bodies: Sequence[CompositeBody], candidates: Sequence[_Candidate], turn: Array | None = None, floats: bool = False
) -> list[Hypothesis]:
    """Returns all hypotheses by descending score; the base frame is rotated by `turn` (3, 3) before."""
    masses, centers = _body_masses(bodies)
    if turn is not None:
        candidates, centers = [_fill_geometry(each, turn) for each in candidates], centers @ turn.T
    found, is_planar = [NO_LEGS], planar_base_index(bodies) > 0
    for kind, legs in _enumerate_arrangements(candidates, is_planar):
        chosen = list(legs.values())
        factors = [
            _similarity_factor(chosen),
            _common_ground_factor(chosen),
            _lowest_limbs_factor(chosen, candidates),
            _omitted_limbs_factor(chosen, candidates),
        ]
        if kind == "leg":
            factors.append(_lone_leg_factor(chosen[0], is_planar or floats))
        else:
            names = math.prod((UNNAMED_FACTOR, 1.0, MISNAMED_FACTOR)[x.named] for x in chosen) ** (2.0 / len(chosen))
            rise = _torso_rise(chosen, masses, centers) if kind == "biped" else math.inf
            trunk_factor = _torso_factor(rise) if kind == "biped" else _level_trunk_factor(chosen)
            factors += [_hanging_factor(chosen, rise), names, trunk_factor]
        found.append(Hypothesis(kind, {name: x.limb for name, x in legs.items()}, math.prod(factors)))
    return sorted(found, key=lambda each: -round(each.score, 6))


def _enumerate_arrangements(
    candidates: Sequence[_Candidate], is_planar: bool
) -> Iterator[tuple[str, dict[str, _Candidate]]]:
    """Yields every choice of legs in rows, in a plus, as a mirrored pair or as a single leg.

    The two legs of a robot with a planar base may be in one plane, one behind or beside the other.
    """
    for four in itertools.combinations(candidates, 4):
        reaches = [x.reach for x in four]
        if max(reaches) <= MAX_LENGTH_RATIO * min(reaches):
            named = _name_legs_by_row(four, ("F", "R")) or _name_plus(four)
            if named is not None:
                yield "quadruped", named
    if len(candidates) <= MAX_HEXAPOD_LIMBS:
        for six in itertools.combinations(candidates, 6):
            if _have_same_build(six) and _have_level_feet(six):
                named = _name_legs_by_row(six, ("F", "M", "R"))
                if named is not None:
                    yield "hexapod", named
    for pair in itertools.combinations(candidates, 2):
        if _are_mirrored(*pair):
            _, across = _along_and_across(pair)
            yield "biped", {"L": pair[across.index(max(across))], "R": pair[across.index(min(across))]}
        elif is_planar:
            rear, front = sorted(pair, key=lambda each: each.hip[0])
            apart = front.hip[0] - rear.hip[0] > MIN_ROW_DISTANCE * max(front.reach, rear.reach)
            yield "biped", {"F": front, "B": rear} if apart else dict(zip("LR", pair, strict=True))
    if len(candidates) == 1:
        limb = candidates[0].limb
        if limb.alone and limb.chain.n <= MAX_LONE_LEG and not _stands_on_its_base(limb):
            yield "leg", {"leg": candidates[0]}


def _along_and_across(chosen: Sequence[_Candidate]) -> tuple[list[float], list[float]]:
    """Returns hip positions along the forward axis and to the left [m].

    Knee axes decide whether forward is x or y; for sprawling legs, forward is the direction in which the hips are
    clearly farther apart, or x.
    """
    x, y = sum(each.sideways[0] for each in chosen), sum(each.sideways[1] for each in chosen)
    if x == y == 0.0:
        spread = [max(each.hip[k] for each in chosen) - min(each.hip[k] for each in chosen) for k in (0, 1)]
        y, x = spread[0] * MAX_ASPECT_OF_SQUARE, spread[1] if len(chosen) > 2 else 0.0
    if x > y * (1.0 + FILE_ANGLE_TOLERANCE):
        return [each.hip[1] for each in chosen], [-each.hip[0] for each in chosen]
    return [each.hip[0] for each in chosen], [each.hip[1] for each in chosen]


def _have_same_build(chosen: Sequence[_Candidate]) -> bool:
    """Returns whether limbs have the same number of joints and nearly the same length."""
    reaches = [x.reach for x in chosen]
    return len({x.joints for x in chosen}) == 1 and max(reaches) < 1.2 * min(reaches)


def _have_level_feet(chosen: Sequence[_Candidate]) -> bool:
    """Returns whether the feet are at nearly the same height."""
    heights = [x.tip[2] for x in chosen]
    return max(heights) - min(heights) < 0.5 * max(x.reach for x in chosen)


def _are_mirrored(a: _Candidate, b: _Candidate) -> bool:
    """Returns whether two limbs are mirror images of each other."""
    if not _have_same_build((a, b)):
        return False
    along, across = _along_and_across((a, b))
    size = max(a.reach, b.reach)
    off = math.hypot(along[0] - along[1], across[0] + across[1], a.hip[2] - b.hip[2])
    return abs(across[0] - across[1]) > 0.02 * size and off < 0.1 * size


def _name_legs_by_row(chosen: Sequence[_Candidate], rows: tuple[str, ...]) -> dict[str, _Candidate] | None:
    """Names legs row by row, from front to rear and left before right; None if they do not stand in such rows."""
    along, across = _along_and_across(chosen)
    named = _name_rows(chosen, rows, along, across)
    if named is None and all(each.sideways == (0.0, 0.0) for each in chosen):  # sprawling legs may also face along y
        return _name_rows(chosen, rows, across, [-x for x in along])
    return named


def _name_rows(
    chosen: Sequence[_Candidate], rows: tuple[str, ...], along: Sequence[float], across: Sequence[float]
) -> dict[str, _Candidate] | None:
    """Names legs as `_name_legs_by_row` does, by positions along the forward axis and to the left [m]."""
    middle, width = sum(across) / len(across), max(across) - min(across)
    order = sorted(range(len(chosen)), key=lambda i: -along[i])
    length = max(along) - min(along)
    named, row_positions = {}, []
    for k, row in enumerate(rows):
        left, right = sorted(order[2 * k : 2 * k + 2], key=lambda i: -across[i])
        if not across[left] > middle > across[right]:
            return None
        a, b = chosen[left], chosen[right]
        if a.joints != b.joints or not 0.8 < a.reach / max(b.reach, 1e-9) < 1.25:
            return None
        if abs(along[left] - along[right]) > 0.25 * length or across[left] - across[right] < 0.02 * length:
            return None
        named[row + "L"], named[row + "R"] = a, b
        row_positions.append(0.5 * (along[left] + along[right]))
    # Arms above legs are in the same row as the legs.
    if min(a - b for a, b in itertools.pairwise(row_positions)) <= 0.2 * width:
        return None
    return named


def _name_plus(chosen: Sequence[_Candidate]) -> dict[str, _Candidate] | None:
    """Names four legs of equal build that point forward, to the sides and backward; None if they do not."""
    if not _have_same_build(chosen):
        return None
    x, y = (sum(each.hip[k] for each in chosen) / len(chosen) for k in (0, 1))
    positions = [(each.hip[0] - x, each.hip[1] - y) for each in chosen]
    distances = [math.hypot(*position) for position in positions]
    heights = [each.hip[2] for each in chosen]
    if min(distances) < 0.5 * max(distances) or max(heights) - min(heights) > 0.5 * chosen[0].reach:
        return None
    named: dict[str, _Candidate] = {}
    for name in PLUS:
        ahead, aside = LEG_PLACES[name]
        for each, (px, py), distance in zip(chosen, positions, distances, strict=True):
            axis = each.limb.bending_axis
            # A leg bends in the upright plane through its hip and the middle.
            if (
                px * ahead + py * aside > 0.9 * distance
                and abs(float(axis[0]) * px + float(axis[1]) * py) < 0.3 * distance
            ):
                named[name] = each
    return named if len({id(each) for each in named.values()}) == len(PLUS) else None


def _stands_on_its_base(limb: Limb) -> bool:
    """Returns whether a single chain is an arm (vertical first axis, rising) or a cart (slides horizontally)."""
    origins, axes, tip = limb.chain.forward(np.zeros(limb.chain.n))
    first = limb.chain.joints[0]
    if first is not None and first.type == "prismatic":
        return abs(float(axes[0][2])) < 0.5
    return abs(float(axes[0][2])) > 0.9 and float(tip[2] - origins[0][2]) > 0.2 * limb.reach


def _similarity_factor(chosen: Sequence[_Candidate]) -> float:
    """Returns the factor for legs of equal length and number of joints."""
    reaches, joints = [x.reach for x in chosen], [x.joints for x in chosen]
    return math.exp(-(max(reaches) - min(reaches)) / max(reaches)) * 0.85 ** (max(joints) - min(joints))


def _common_ground_factor(chosen: Sequence[_Candidate]) -> float:
    """Returns the factor for a level ground that all legs reach, neither overstretched nor folded flat."""
    mean = sum(x.reach for x in chosen) / len(chosen)
    highest = min(x.hip[2] - MIN_EXTENSION * x.reach for x in chosen)
    lowest = max(x.hip[2] - x.reach for x in chosen)
    heights = [x.tip[2] for x in chosen]
    span = (max(heights) - min(heights)) / mean
    return math.exp(-8.0 * max(lowest - highest, 0.0) / mean) / (1.0 + (span / 1.5) ** 2)


def _lowest_limbs_factor(chosen: Sequence[_Candidate], candidates: Sequence[_Candidate]) -> float:
    """Returns the factor for the absence of limbs that end lower than the legs."""
    n = len(chosen)
    lowest = sum(sorted(x.tip[2] for x in candidates)[:n]) / n
    above = sum(x.tip[2] for x in chosen) / n - lowest
    return math.exp(-max(above, 0.0) * n / sum(x.reach for x in chosen))


def _omitted_limbs_factor(chosen: Sequence[_Candidate], candidates: Sequence[_Candidate]) -> float:
    """Returns the factor for the absence of further limbs like the legs; a limb next to a leg is part of its drive."""
    reach = max(x.reach for x in chosen)
    height = max(x.tip[2] for x in chosen) + 0.1 * reach
    apart = min((math.dist(a.hip, b.hip) for a, b in itertools.combinations(chosen, 2)), default=0.0)
    score = 1.0
    for other in candidates:
        if any(other is x for x in chosen) or not any(_have_same_build((other, x)) for x in chosen):
            continue
        if len(chosen) > 2 and min(math.dist(other.hip, x.hip) for x in chosen) < DRIVE_DISTANCE_FRACTION * apart:
            continue
        score *= OMITTED_LEG_FACTOR if other.tip[2] < height or other.named == 1 else OMITTED_LIMB_FACTOR
    others = [x for x in candidates if not any(x is y for y in chosen)] if len(chosen) == 2 else []
    if any(_are_mirrored(*pair) and _beside_legs(pair, chosen) for pair in itertools.combinations(others, 2)):
        score *= OMITTED_LEG_FACTOR
    return score


def _beside_legs(pair: Sequence[_Candidate], legs: Sequence[_Candidate]) -> bool:
    """Returns whether two limbs of another length have hips and feet at about the height of those of the legs."""
    reach = max(x.reach for x in legs)
    if _have_same_build((pair[0], legs[0])) or not reach < MAX_LENGTH_RATIO * pair[0].reach:
        return False
    apart = (max(abs(a.hip[2] - b.hip[2]), abs(a.tip[2] - b.tip[2])) for a in pair for b in legs)
    return max(apart) < 0.5 * reach


def _lone_leg_factor(chosen: _Candidate, has_moving_base: bool) -> float:
    """Returns the factor for a single limb with the names of a leg, or below a base that joints of the file move."""
    if chosen.named == 1:
        return 1.0
    return UNNAMED_LONE_LEG_SCORE if has_moving_base and chosen.named == 0 and chosen.hang > 0.5 else 0.5 * MIN_SCORE


def _hanging_factor(chosen: Sequence[_Candidate], rise: float) -> float:
    """Returns the factor for feet below the hips with all joints at zero; flat or folded legs have little influence.

    Two limbs that no name calls legs must hang, because two arms extend sideways from a torso, and so must two legs
    without a torso above them (`rise` as returned by `_torso_rise`): they stretch out beside the torso if another axis
    of the base frame is the vertical one.
    """
    hang = sum(x.hang for x in chosen) / len(chosen)
    if len(chosen) == 2 and (rise < MIN_TORSO_RISE or any(x.named != 1 for x in chosen)):
        return max(min(2.0 * hang, 1.0), MIN_SCORE)
    return 0.7 + 0.3 * max(min(hang, 1.0), -1.0)


def _level_trunk_factor(chosen: Sequence[_Candidate]) -> float:
    """Returns the factor for a trunk that is level; the torso between legs and arms of a humanoid is upright."""
    slopes = sorted(
        abs(a.hip[2] - b.hip[2]) / max(math.dist(a.hip[:2], b.hip[:2]), 1e-9)
        for a, b in itertools.combinations(chosen, 2)
    )
    return 1.0 / (1.0 + slopes[len(slopes) // 2] ** 4)


def _torso_rise(chosen: Sequence[_Candidate], masses: Array, centers: Array) -> float:
    """Returns the height of the center of mass of all other bodies above the hips, divided by the leg length."""
    others = np.ones(len(masses), dtype=bool)
    for each in chosen:
        others[list(each.limb.indices)] = False
    mass = float(masses[others].sum())
    if mass <= 0.0:
        return 0.0
    height = float(masses[others] @ centers[others][:, 2]) / mass
    return (height - sum(x.hip[2] for x in chosen) / len(chosen)) / max(x.reach for x in chosen)


def _torso_factor(rise: float) -> float:
    """Returns the factor for a torso above the hips (see `_torso_rise`); a torso hangs below its shoulders."""
    return math.exp(-max(-rise / MIN_TORSO_RISE - 1.0, 0.0))


def _body_masses(bodies: Sequence[CompositeBody]) -> tuple[Array, Array]:
    """Returns masses (n,) [kg] and centers of mass (n, 3) [m] of all bodies in the trunk frame, joints at zero."""
    poses = [trunk_placement(bodies).inverse()]
    for body in bodies_in_trunk_frame(bodies)[1:]:
        poses.append(body.placement if body.parent == 0 else poses[body.parent] @ body.placement)
    centers = np.array([pose.apply(body.inertial.com) for pose, body in zip(poses, bodies, strict=True)])
    return np.array([body.inertial.mass for body in bodies]), centers


# -- frames ----------------------------------------------------------------------------------------------------------
#: Rotations that turn an axis of the base frame up.
_UP_ROTATIONS = {
    "y": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]),
    "-y": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]),
    "x": np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    "-x": np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]),
    "-z": np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]]),
}


def _find_other_up_axis(
    bodies: Sequence[CompositeBody], candidates: Sequence[_Candidate], score: float
) -> tuple[str, Array, Hypothesis] | None:
    """Returns another upward axis, the rotation of it to z and of forward to x, and the legs; None if z is up."""
    found: tuple[str, Array, Hypothesis] | None = None
    for up, turn in _UP_ROTATIONS.items() if ROTATED_FRAME_RATIO * score <= 1.0 else ():
        best = _rank_hypotheses(bodies, candidates, turn)[0]
        if best.kind not in ("quadruped", "hexapod", "biped") or best.score < ROTATED_FRAME_RATIO * score:
            continue
        indices = {limb.indices for limb in best.legs.values()}
        legs = [_fill_geometry(each, turn) for each in candidates if each.limb.indices in indices]
        if sum(x.hang for x in legs) < 0.5 * len(legs):
            continue
        if best.kind == "biped" and not all(x.named == 1 for x in legs):
            continue  # arms and fingers point anywhere
        named, misfits = _rename_by_file_names(bodies, best, Where("", 0, ""))
        if misfits and named is best:
            continue  # left is right there
        if found is None or best.score > found[2].score:
            forward, left = forward_and_left(named.legs)
            found = up, np.array([forward, left, np.cross(forward, left)]) @ turn, named
    return found


def _rename_by_file_names(
    bodies: Sequence[CompositeBody], best: Hypothesis, where: Where
) -> tuple[Hypothesis, list[Finding]]:
    """Renames the legs by the positions in the names of the file, if these are consistent for all legs."""
    if best.kind not in ("quadruped", "hexapod", "biped"):
        return best, []
    positions = {name: LEG_PLACES[name] for name in best.legs}
    named_positions = positions_from_names(
        {name: collect_names(bodies, limb.indices) for name, limb in best.legs.items()}
    )
    if best.kind == "biped":
        named_positions = {name: (0, aside) for name, (_, aside) in named_positions.items()}
        if planar_base_index(bodies) and named_positions.get("L", (0, 0)) < named_positions.get("R", (0, 0)):
            return replace(best, legs={"L": best.legs["R"], "R": best.legs["L"]}), []
    forward, left = forward_and_left(best.legs)
    known = [all(position[k] for position in named_positions.values()) for k in (0, 1)]
    if best.kind == "quadruped" and known[0] != known[1] and set(best.legs) != set(PLUS):
        # Names of rows alone, or of sides alone, only show whether the robot faces backward.
        k = known.index(True)
        if any(named_positions[name][k] != -position[k] for name, position in positions.items()):
            return best, []
        named_positions = {name: (-x, -y) for name, (x, y) in positions.items()}
    if sorted(named_positions.values()) != sorted(positions.values()) or named_positions == positions:
        return best, [] if named_positions != positions else _report_heading(forward, left, where)
    name_by_position = {position: name for name, position in positions.items()}
    sprawling = all(limb.sprawls for limb in best.legs.values())  # their knees do not show where the robot faces
    for c, s in ((-1, 0), (0, 1), (0, -1)) if sprawling else ((-1, 0),):
        turned = {name: (c * x + s * y, c * y - s * x) for name, (x, y) in positions.items()}
        if turned == named_positions:
            break
    else:
        pairs = ", ".join(f"{limb.chain.joints[0].name!r} is leg {name}" for name, limb in best.legs.items())  # type: ignore[union-attr]
        reason = (
            f"the names of the legs in the file contradict their positions, so that legs are named by position: {pairs}"
        )
        return best, [Finding("warning", where, reason, "correct the names or the placements, or pass legs=")]
    found = {name_by_position[turned[name]]: limb for name, limb in best.legs.items()}
    ahead, aside = c * forward + s * left, c * left - s * forward
    axis = ("-" if ahead.sum() < 0.0 else "") + "xy"[int(np.abs(ahead).argmax())]
    reason = f"the base frame is rotated: by the names of its legs the robot faces along {axis}, not along x"
    rotation = np.array([ahead, aside, [0.0, 0.0, 1.0]])
    advice = f"legs are named and moved accordingly; pass base={_format_rotation(rotation)} to rotate the frame"
    return replace(best, legs={name: found[name] for name in best.legs}), [Finding("warning", where, reason, advice)]


def _report_heading(forward: Array, left: Array, where: Where) -> list[Finding]:
    """Returns a warning, as a list, if a robot whose legs are named by their positions does not face along x."""
    if forward[0] > 0.5:
        return []
    axis = ("-" if forward.sum() < 0.0 else "") + "xy"[int(np.abs(forward).argmax())]
    reason = (
        f"the base frame is rotated: by its knees and the names of its legs the robot faces along {axis}, not along x"
    )
    rotation = np.array([forward, left, [0.0, 0.0, 1.0]])
    return [Finding("warning", where, reason, f"pass base={_format_rotation(rotation)} to rotate the frame")]


def _format_rotation(rotation: Array) -> str:
    """Returns a rotation matrix as text for messages."""
    return str(np.rint(rotation).astype(int).tolist())


# -- report ----------------------------------------------------------------------------------------------------------
def _report(
    bodies: Sequence[CompositeBody],
    best: Hypothesis,
    ranked: Sequence[Hypothesis],
    has_limbs: bool,
    where: Where,
) -> list[Finding]:
    """Returns findings on the best hypothesis, its score, the second best one and other limbs of the robot."""
    others = _other_limbs(bodies, best)
    if not has_limbs and not others:
        joints = sum(body.joint is not None for body in bodies)
        reason = (
            f"no legs: no limb on the trunk is a chain of {MIN_JOINTS} to {MAX_JOINTS} joints with one degree of "
            "freedom each that move its end (those of casters and wrists do not)"
        )
        return [Finding("note", where, reason, "pass legs= to name the joints of legs")] if joints else []
    chosen = {limb.indices for limb in best.legs.values()}
    rival = next((x for x in ranked if x.legs and {limb.indices for limb in x.legs.values()} != chosen), None)
    if best.legs:
        reason = f"{best}, score {best.score:.2f}"
        if rival is not None:
            reason += f"; second best: {rival}, score {rival.score:.2f} (margin {best.score - rival.score:.2f})"
    else:
        too_low = rival is None or rival.score < MIN_SCORE
        reason = f"no legs, because no choice of limbs reaches a score of {MIN_SCORE:.2f}" if too_low else "no legs"
        reason += f"; best choice: {rival}, score {rival.score:.2f}" if rival is not None else ""
    if others:
        reason += f"; other limbs: {', '.join(others)}"
    advice = "pass legs= for other legs"
    if best.legs and rival is not None and rival.score > GUESS_RATIO * best.score:
        return [
            Finding(
                "warning",
                where,
                f"the legs are uncertain, because the second best choice scores nearly as high: {reason}",
                advice,
            )
        ]
    if best.legs and best.score < GUESS_SCORE:
        return [Finding("warning", where, f"the legs are uncertain, because the score is low: {reason}", advice)]
    return [Finding("note", where, reason, advice)]


def _other_limbs(bodies: Sequence[CompositeBody], best: Hypothesis) -> list[str]:
    """Describes limbs of three or more joints that are not legs, such as arms, and legs by name behind a long spine."""
    children: list[list[int]] = [[] for _ in bodies]
    depth, trunk = [0] * len(bodies), trunk_index(bodies)
    for i, body in enumerate(bodies[1:], start=1):
        children[body.parent].append(i)
        depth[i] = depth[body.parent] + (i > trunk)
    legs = {i for limb in best.legs.values() for i in limb.indices}
    out = []
    for i in range(trunk + 1 if len(children[trunk]) > 1 else 1, len(bodies)):
        start = bodies[i].parent
        if (start != 0 and len(children[start]) == 1) or i in legs:
            continue
        run = [i]
        while len(children[run[-1]]) == 1:
            run += children[run[-1]]
        below, waiting = set[int](), [run[-1]]
        while waiting:
            below.add(waiting[-1])
            waiting += children[waiting.pop()]
        if len(run) < 3 or below & legs or any(bodies[k].joint.nv != 1 for k in run):  # type: ignore[union-attr]
            continue
        kind, place = classify_names(collect_names(bodies, run)), ""
        if depth[start] > MAX_SPINE:
            if kind != 1:
                continue
            place = f" behind a spine of more than {MAX_SPINE} joints"
        ends = f"{bodies[run[0]].joint.name!r} to {bodies[run[-1]].joint.name!r}"  # type: ignore[union-attr]
        out.append(f"{'arm' if kind == -1 else 'limb'} {ends}{place}")
    return out

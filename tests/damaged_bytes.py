"""Random damage to the bytes of files and messages."""

from __future__ import annotations

import io
import zipfile

import numpy as np

WORDS = (b"nan", b"inf", b"-1", b"1e999", b"99999999999999999999", b"0", b"", b"\0", b"\xff", b"1" * 3000, b"../../x")


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Data with random bytes, words or ranges changed, removed, duplicated or replaced."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at, length = (int(rng.integers(0, len(out) + 1)) for _ in range(2))
        end = min(len(out), at + length % int(rng.choice((2, 8, 64, 4096))))
        match int(rng.integers(0, 6)):
            case 0 if at < len(out):
                out[at] ^= 1 << int(rng.integers(0, 8))
            case 1:
                del out[at:end]
            case 2:
                out[at:at] = out[at:end]
            case 3:
                out[at:end] = WORDS[int(rng.integers(0, len(WORDS)))]
            case 4:
                out[at:end] = rng.bytes(end - at)
            case _:
                numbers = [i for i, byte in enumerate(out[at : at + 4096]) if 48 <= byte <= 57]
                if numbers:
                    i = at + numbers[int(rng.integers(0, len(numbers)))]
                    out[i : i + 1] = WORDS[int(rng.integers(0, len(WORDS)))]
    return bytes(out)


def repacked(data: bytes, rng: np.random.Generator) -> bytes:
    """An archive with one mutated member and valid checksums."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = list(members)[int(rng.integers(0, len(members)))]
    members[name] = mutated(members[name], rng)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return file.getvalue()

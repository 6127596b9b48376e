"""With what do prompts begin that others begin with, too?

    block_size([700, 600], [[46, 47], [46, 9]])              -> 512, the tokens in a block that hash_ids name
    shared_prefixes([700, 600], [[46, 47], [46, 9]], 512)    -> [((1, 512),), ((1, 512),)]
"""

from collections import Counter
from itertools import chain

from common import MOST

USUAL = (512, 64, 16)  # tokens in a block
SURE = 1.1  # of several sizes that fit, the largest is at most so many times the smallest


def block_size(prompts, hashes):
    """The tokens in each block that hash_ids name; None if no size fits, or very different ones do.

    A short block at the end may have a name or none. Where several sizes fit that are no power of
    two, they are nearly the same, and the roundest is taken.
    """
    named = [(prompt, len(names)) for prompt, names in zip(prompts, hashes) if names]
    usual = [size for size in USUAL if all(count in (prompt // size, -(-prompt // size)) for prompt, count in named)]
    if len(usual) == 1:
        return usual[0]
    short_named = max(-(-prompt // count) for prompt, count in named)
    short_unnamed = max(prompt // (count + 1) + 1 for prompt, count in named)
    most = min((prompt - 1) // (count - 1) if count > 1 else MOST for prompt, count in named)
    least = short_named if short_named <= most else short_unnamed
    powers = [1 << i for i in range(30) if least <= 1 << i <= most]
    if powers or not least <= most <= SURE * least:
        return powers[0] if len(powers) == 1 else None
    return max(range(least, most + 1), key=lambda size: size & -size)


def shared_prefixes(prompts, hashes, block_tokens):
    """n tuples of (name, tokens), shortest first: what each prompt has in common with others.

    hashes: the names of its blocks. Blocks that only one prompt has are left out. Of blocks that
    always come together only the last is kept. A name means a block and all that is before it.
    """
    seen, shared = set(), set()
    for names in hashes:
        shared |= seen.intersection(names)
        seen.update(names)
    pieces = {}  # (the piece before, name of a block) -> number of the piece
    paths = []
    for names in hashes:
        piece, path = 0, []
        for name in names:
            if name not in shared:
                break
            piece = pieces.setdefault((piece, name), len(pieces) + 1)
            path.append(piece)
        paths.append(path)
    uses = Counter(chain.from_iterable(paths))
    known, prefixes = {}, []
    for prompt, path in zip(prompts, paths):
        pairs = []
        for i, piece in enumerate(path):
            if uses[piece] > 1 and (i + 1 == len(path) or uses[path[i + 1]] < uses[piece]):
                pair = (piece, min(prompt, (i + 1) * block_tokens))
                pairs.append(known.setdefault(pair, pair))
        prefixes.append(tuple(pairs))
    return prefixes

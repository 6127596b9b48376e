"""With what do prompts begin that others begin with, too?

    block_size([700, 600], [[46, 47], [46, 9]])              -> 512, the tokens in a block that hash_ids name
    shared_prefixes([700, 600], [[46, 47], [46, 9]], 512)    -> [((1, 512),), ((1, 512),)]
"""

from collections import Counter
from itertools import chain

USUAL = {512, 64, 16}  # tokens in a block
SIZES = [1 << power for power in range(30)]


def block_size(prompts, hashes):
    """The tokens in each block that hash_ids name, a power of two; None if no size fits, or several do.

    A short block at the end may have a name or none. A usual size that fits is taken before others.
    """
    named = [(prompt, len(names)) for prompt, names in zip(prompts, hashes) if names]
    fit = {size for size in SIZES if all(count in (prompt // size, -(-prompt // size)) for prompt, count in named)}
    sizes = fit & USUAL or fit
    return sizes.pop() if len(sizes) == 1 else None


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

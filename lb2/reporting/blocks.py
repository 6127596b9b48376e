"""What did a script print: sentences, pairs of key=value, or a table?

    blocks("Step 6: the queue\\nqueue.csv:\\nrps,p99_wait_ms\\n5,44.8\\nNotice: it grows.\\n")
        -> [Block("words", "Step 6: the queue"),
            Block("table", [["rps", "p99_wait_ms"], ["5", "44.8"]], "queue.csv"),
            Block("words", "Notice: it grows.")]

A table is csv, or columns that are two spaces apart. It is read by where its columns are blank, so
that an empty cell stays an empty cell. A sentence of several lines is one again.
"""

import re
from typing import NamedTuple


PAIRS = re.compile(r"(?:[\w.]+: )?(\w+=\S*(?: \w+=\S*)*)")
CAPTION = re.compile(r"[\w.]+\.csv\b.*:")


class Block(NamedTuple):
    """kind: "words" (content: a sentence), "pairs" ([(key, value), ...]) or "table" ([header, row,
    ...]).
    """

    kind: str
    content: object
    caption: str = ""


def is_csv(line):
    return "," in line and " " not in line.strip()


def is_row(line):
    """Does a line look like a row of a table?"""
    return is_csv(line) or len(re.split(r" {2,}", line.strip())) > 1


def cells_of(lines):
    """The rows of a table's lines."""
    if all(map(is_csv, lines)):
        return [line.split(",") for line in lines]
    wide = max(map(len, lines))
    padded = [line.ljust(wide) for line in lines]
    blank = "".join(" " if all(line[at] == " " for line in padded) else "x" for at in range(wide))
    edges = [match.span() for match in re.finditer(r"x(?:x| (?! ))*", blank)]
    return [[line[start:end].strip() for start, end in edges] for line in padded]


def is_continued(line, following):
    """Do these two lines that say printed hold one sentence? They do where its next word found no room."""
    word = following.split(" ")[0]
    within = bool(word) and not line.endswith((".", ":", "?"))
    return within and len(line) <= 100 < len(line) + 1 + len(word)


def blocks(printed):
    """The Blocks of what a script printed, in its order."""
    found, rows, caption, before = [], [], "", ""
    for line in [*printed.splitlines(), ""]:
        if is_continued(before, line):
            found[-1] = Block("words", f"{found[-1].content} {line}")
            before = line
            continue
        before = ""
        if is_row(line):
            rows.append(line)
            continue
        if rows:
            found.append(Block("table", cells_of(rows), caption))
            rows, caption = [], ""
        pairs, named = PAIRS.fullmatch(line.strip()), CAPTION.fullmatch(line.strip())
        if named:
            caption = line.strip().rstrip(":")
        elif pairs:
            found.append(Block("pairs", [tuple(pair.split("=", 1)) for pair in pairs[1].split()]))
        elif line.strip():
            found.append(Block("words", line.strip()))
            before = line
    return found


def sentences(found):
    """The words among the Blocks."""
    return [block.content for block in found if block.kind == "words"]

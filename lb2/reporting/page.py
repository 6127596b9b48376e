"""How do the blocks and pictures of a report become one HTML page that needs nothing else?

No script, no font, no network. Sentences are paragraphs, tables are tables: words left, numbers
right, their header on every printed page. Nothing scrolls sideways on a phone 400 pixels wide.
"""

import base64
import html
import re
from typing import NamedTuple

LONG = 12  # rows of a table; a longer one is folded
WIDE = 6  # columns of a table whose header is turned upright on a phone
STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --quiet: #59636e; --line: #d1d9e0; --box: #f6f8fa;
        --badge: #8a4600 }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --quiet: #9198a1; --line: #3d444d;
        --box: #151b23; --badge: #f0a35c } }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; max-width: 44rem;
       margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.5rem 0 .5rem }
p { margin: .5rem 0 }
.answer { border: 2px solid var(--line); border-radius: 8px; padding: 1rem; margin: 1rem 0 }
.answer .first { font-size: 1.3rem; font-weight: 600; line-height: 1.35; margin-top: 0 }
.badge { display: inline-block; border: 1px solid var(--badge); color: var(--badge); border-radius: 1rem;
         padding: 0 .7rem; font-size: .85rem; margin: 0 }
.trouble { border-left: 4px solid var(--badge); padding-left: .8rem }
img { width: 100%; max-width: 42rem; display: block; margin: 1rem 0 }
table { border-collapse: collapse; font-size: .8rem; line-height: 1.35; margin: .8rem 0; max-width: 100%;
        font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--quiet) }
thead { display: table-header-group }
th { color: var(--quiet); font-weight: 600; vertical-align: bottom; border-bottom: 1px solid var(--line) }
td, th { padding: .15rem .4rem; text-align: left; vertical-align: top; overflow-wrap: break-word }
td:first-child, th:first-child { padding-left: 0 }
td.n, th.n { text-align: right }
summary { color: var(--quiet); cursor: pointer }
dl { display: grid; grid-template-columns: fit-content(45%) 1fr; gap: .1rem 1rem; margin: .8rem 0; font-size: .9rem }
dt { color: var(--quiet) } dd { margin: 0; font-variant-numeric: tabular-nums }
@media (max-width: 44rem) { body { margin-top: 1rem } 
  .answer { padding: .7rem 0; border-width: 2px 0; border-radius: 0 }
  img { width: calc(100% + 2rem); max-width: none; margin: 1rem -1rem } table { font-size: .75rem }
  td, th { padding: .15rem .2rem }
  table.wide { font-size: 11px; width: 100% }
  .wide th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left;
  vertical-align: top; border-bottom: none; padding: .2rem 0 } }
@media print { :root { color-scheme: light; --paper: #ffffff; --ink: #000000; --quiet: #444444; --line: #999999;
  --badge: #663300 } body { max-width: none; margin: 0; font-size: 11pt } caption { break-after: avoid }
  img, tr, dl, header { break-inside: avoid } img { max-width: 13cm } p { orphans: 3; widows: 3 } }
"""
NUMBER = re.compile(r"[-+]?[\d.,]+(?:e[-+]?\d+)?%?")


class Section(NamedTuple):
    """A part of the page. pictures: SVG texts; blocks: of report_blocks; tables: (name, rows) of
    more files.
    """

    question: str
    badge: str
    pictures: list
    blocks: list
    tables: list
    troubles: list


def escaped(words):
    return html.escape(words, quote=True)


def breakable(words):
    """A name of several parts may be broken between them."""
    return escaped(words).replace("_", "_<wbr>").replace("/", "/<wbr>")


def image(svg):
    """An SVG text as an image of the page's own. Where it is not shown, its finding is read out."""
    finding = html.unescape(re.search(r"<desc>(.*?)</desc>", svg, re.DOTALL)[1])
    encoded = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    return f'<img alt="{escaped(finding)}" src="data:image/svg+xml;base64,{encoded}">'


def table(rows, caption=""):
    """A table; rows: header first. A column of numbers is flush right."""
    header, *body = rows
    numeric = [all(not cell or NUMBER.fullmatch(cell) for cell in column) for column in zip(*body)]
    kinds = [' class="n"' if right else "" for right in numeric]
    kinds = kinds or [""] * len(header)  # a table without rows
    head = "".join(f"<th{kind}>{breakable(cell)}</th>" for kind, cell in zip(kinds, header))
    lines = ["".join(f"<td{kind}>{escaped(cell)}</td>" for kind, cell in zip(kinds, row)) for row in body]
    title = f"<caption>{breakable(caption)}</caption>" if caption else ""
    wide = ' class="wide"' if len(header) >= WIDE else ""
    whole = (f"<table{wide}>{title}<thead><tr>{head}</tr></thead><tbody>\n"
             + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</tbody></table>")
    if len(body) <= LONG:
        return whole
    return f"<details><summary>{escaped(caption or 'table')}, {len(body)} rows</summary>{whole}</details>"


def listed(pairs):
    return "<dl>" + "".join(f"<dt>{breakable(what)}</dt><dd>{breakable(value)}</dd>" for what, value in pairs) + "</dl>"


def block(some):
    if some.kind == "table":
        return table(some.content, some.caption)
    return listed(some.content) if some.kind == "pairs" else f"<p>{escaped(some.content)}</p>"


def section(part):
    """The HTML of a Section."""
    first, *others = [*map(image, part.pictures), *map(block, part.blocks), ""]
    return "\n".join([
        f"<section><header><h2>{escaped(part.question)}</h2>",  # in print a header stays with what follows it
        *([f'<p class="badge">{escaped(part.badge)}</p>'] if part.badge else []),
        *(f'<p class="trouble">{escaped(trouble)}</p>' for trouble in part.troubles),
        f"{first}</header>", *others,
        *(table(rows, name) for name, rows in part.tables),
        "</section>",
    ])


def answer(sentences, pictures, troubles):
    """The first block: the answer in one sentence, what is to be said about it, and its pictures.
    """
    first, *others = sentences
    return "\n".join([
        '<div class="answer">', f'<p class="first">{escaped(first)}</p>',
        *(f"<p>{escaped(words)}</p>" for words in others),
        *(f'<p class="trouble">{escaped(trouble)}</p>' for trouble in troubles),
        *map(image, pictures), "</div>",
    ])


def page(title, answers, facts, sections):
    """The HTML text, ASCII. answers: HTML of the first block; facts: (what, value); sections:
    Sections.
    """
    text = "\n".join([
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escaped(title)}</title>',
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>',
        f"<h1>{breakable(title)}</h1>", *answers, listed(facts), *map(section, sections), "</body></html>\n",
    ])
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")

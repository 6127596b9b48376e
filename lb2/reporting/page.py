"""How do tables, sentences and pictures become one HTML page that needs nothing else?

No script, no font, no network. Nothing scrolls sideways on a phone 375 pixels wide. Printed, it is
black on white, and what is folded stays folded.
"""

import base64
import html
import re

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --quiet: #59636e; --line: #d1d9e0 }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --ink: #e6edf3; --quiet: #9198a1; --line: #3d444d } }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; max-width: 40rem;
       margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.3; margin: 0 0 1rem }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; break-after: avoid }
img { width: 100%; max-width: 36rem; height: auto; display: block; margin: 1rem 0 }
table { border-collapse: collapse; font-size: .9rem; margin: .8rem 0; font-variant-numeric: tabular-nums;
        overflow-wrap: normal }
th { color: var(--quiet); font-weight: 600; vertical-align: bottom; border-bottom: 1px solid var(--line) }
td, th { padding: .15rem .6rem; text-align: right }
td:first-child, th:first-child { padding-left: 0; text-align: left }
ul { padding-left: 1.2rem } li { margin: .3rem 0 }
details { border-top: 1px solid var(--line); padding: .4rem 0 } summary { cursor: pointer }
@media screen and (max-width: 44rem) { table { font-size: .8rem } td, th { padding: .15rem .3rem } }
@media print { body { max-width: none; margin: 0; font-size: 10pt } img { max-width: 12cm }
  img, tr, li, details { break-inside: avoid } }
"""


def escaped(words):
    return html.escape(str(words), quote=True)


def image(svg):
    """An SVG text as an image of the page's own. Where it is not shown, its finding is read out."""
    finding = html.unescape(re.search(r"<desc>(.*?)</desc>", svg, re.DOTALL)[1])
    width, height = re.search(r'width="(\d+)" height="([\d.]+)"', svg).groups()
    encoded = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    return f'<img width="{width}" height="{height}" alt="{escaped(finding)}" src="data:image/svg+xml;base64,{encoded}">'


def table(rows):
    """A table; rows: header first."""
    kinds = ["th", *["td"] * (len(rows) - 1)]
    lines = ("".join(f"<{kind}>{escaped(cell)}</{kind}>" for cell in row) for kind, row in zip(kinds, rows))
    return "<table>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table>"


def listed(sentences):
    return "<ul>\n" + "\n".join(f"<li>{escaped(words)}</li>" for words in sentences) + "\n</ul>"


def folded(question, content, note=""):
    words = f"<p>{escaped(note)}</p>" if note else ""
    return f"<details><summary>{escaped(question)}</summary>{content}{words}</details>"


def page(headline, parts):
    """The HTML text, ASCII."""
    text = "\n".join([
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escaped(headline)}</title>',
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>',
        f"<h1>{escaped(headline)}</h1>", *filter(None, parts), "</body></html>\n",
    ])
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")

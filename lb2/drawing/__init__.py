"""SVG: pieces, scales, labels, and one file for each picture."""

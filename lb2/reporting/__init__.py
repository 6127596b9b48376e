"""The parts of the page that report.py writes."""

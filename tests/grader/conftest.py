"""How a run of grade.py ends: what was recognised, the verdict, and the status."""


def pytest_sessionfinish(session):
    words, status = getattr(session.config, "closing", ("", session.exitstatus))
    session.exitstatus = max(session.exitstatus, status)


def pytest_unconfigure(config):
    words, _ = getattr(config, "closing", ("", 0))
    if words:
        print(words)

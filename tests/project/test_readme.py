"""What keeps the pages fresh goes red for each kind of staleness; the pages themselves are checked by make check."""

import pytest
import readme

PAGE = """# A page

Run `make tune`; see [below](#further-down) and [a file](lb2/tune.py).

```
$ greet world
hello world
$ greet again
hello again
```

There are <!-- = out.txt total_steps -->5036<!-- / --> steps and <!-- = out.csv rps=10,p99 -->62.998<!-- / --> ms.
<img alt="x" src="lb2/x.svg">

It prints: <!-- $ greet table -->

hello table

## Further down
"""


@pytest.fixture
def project(tmp_path):
    """A project of four files, and a copy of it in which commands `run`."""
    for folder in (tmp_path, tmp_path / "copy"):
        (folder / "lb2" / "pictures").mkdir(parents=True)
        (folder / "drawn").mkdir()
        for name in ("tune.py", "x.svg", "pictures/a.svg"):
            (folder / "lb2" / name).write_text("<svg/>")
        (folder / "drawn" / "a.svg").write_text("<svg/>")
        (folder / "lb2" / "other.md").write_text("# Somewhere\n")
        (folder / "lb2" / "out.txt").write_text("total_steps=5036 slot_util=0.5\n")
        (folder / "lb2" / "out.csv").write_text("rps,p99\n5,44.845\n10,62.998\n")
    return tmp_path


def run(command):
    if command.startswith("greet "):
        return f"hello {command[6:]}\n"
    if "--wrong" in command:
        raise readme.Stale(f"the command `{command}` fails with status 2: --wrong")
    if command == "make -n nothing":
        raise readme.Stale("no rule")
    if command == "break":
        raise readme.Stale("the command `break` fails with status 2: no such thing")
    return ""


def complaints(text, project):
    found = readme.problems(text, project, project, run, project / "copy")
    return found + readme.picture_problems(project, run, project / "copy")


def test_a_fresh_page_has_nothing_to_mend(project):
    assert complaints(PAGE, project) == []


@pytest.mark.parametrize(
    "old, new, says",
    [
        (
            "hello again",
            "hello agian",
            "line 9 is stale: run make readme\n  there   hello agian\n  printed hello again",
        ),
        ("hello again\n", "", "is stale: run make readme"),
        ("\nhello table\n", "\nhello tables\n", "is stale: run make readme"),
        (">5036<", ">5037<", "is stale: run make readme"),
        ("62.998", "62.9", "is stale: run make readme"),
        ("out.txt total_steps", "out.txt steps", "the number out.txt steps cannot be read"),
        ("rps=10,p99", "rps=11,p99", "the number out.csv rps=11,p99 cannot be read"),
        ("$ greet again", "$ break", "the command `break` fails with status 2"),
        ("#further-down", "#further-up", "the anchor #further-up is no heading"),
        ("lb2/tune.py", "lb2/tuna.py", "the link lb2/tuna.py leads to no file"),
        ("#further-down", "lb2/other.md#nowhere", "the anchor lb2/other.md#nowhere is no heading"),
        ("[a file](lb2/tune.py)", "`lb2/tuna.py`", "the file lb2/tuna.py is named and does not exist"),
        ("## Further down", "## Further down\n\n```\nmake nothing OUT=/path/to\n```", "the command `make nothing` has no such target"),
        ("`make tune`", "`make tune`, `true && python3 lb2/tune.py --wrong`", "fails with status 2: --wrong"),
        ("hello again", "hello again" + "n" * 90, "a line of a session has 101 columns, and 100 fit"),
        ("It prints: <!--", "<!--", "begins with a comment, which ends the paragraph"),
        ("lb2/x.svg", "lb2/y.svg", "the link lb2/y.svg leads to no file"),
    ],
)
def test_each_kind_of_staleness_is_named(project, old, new, says):
    found = complaints(PAGE.replace(old, new), project)
    assert len(found) == (2 if "columns" in says else 1) and says in found[-1]


def test_a_failing_command_in_running_text(project):
    def strict(command):
        if command == "make tune":
            raise readme.Stale("the command `make tune` fails with status 2: no rule")
        return run(command)

    assert readme.problems(PAGE, project, project, strict, project / "copy") == [
        "the command `make tune` fails with status 2: no rule"
    ]


def test_a_make_that_takes_long_is_started_all_the_same(project):
    """A session runs its script; its recipe is tried with --help, and a failure is told."""
    def strict(command):
        if command == "make measured OPTIONS=--help":
            raise readme.Stale("the command `make measured` fails with status 2: no such file")
        return run(command)

    found = readme.problems("Run `make measured`.\n", project, project, strict, project / "copy")
    assert found == ["the command `make measured` fails with status 2: no such file"]


def test_a_stale_a_missing_and_a_forgotten_picture(project):
    (project / "copy" / "drawn" / "a.svg").write_text("<svg>new</svg>")
    (project / "lb2" / "pictures" / "b.svg").write_text("<svg/>")
    (project / "copy" / "drawn" / "c.svg").write_text("<svg/>")
    assert complaints(PAGE, project) == [f"the picture {name}.svg is stale: run make pictures" for name in "abc"]


def test_writing_mends_what_checking_names(project):
    stale = PAGE.replace("hello again", "old").replace("hello table\n", "old\n").replace(">5036<", ">1<")
    assert readme.fresh(stale, run, project / "copy" / "lb2") == PAGE


def test_commands_run_in_a_copy_and_a_failing_one_is_told(project, tmp_path_factory):
    run_in_copy, copy = readme.runner(project, tmp_path_factory.mktemp("work"))
    assert run_in_copy("pwd").strip() == str(copy) and run_in_copy("python3 -c 'print(1)'") == "1\n"
    with pytest.raises(readme.Stale, match="fails with status 7: oh"):
        run_in_copy("echo oh; exit 7")
    assert not list((copy / "lb2").glob("*.txt")), "results of earlier runs are not copied"


def test_links_of_a_page_count_from_its_own_folder(project):
    text = "See [a](tune.py), [b](../lb2/tune.py) and [c](lb2/tune.py).\n"
    assert readme.problems(text, project, project / "lb2", run, project / "copy") == [
        "the link lb2/tune.py leads to no file: mend it"
    ]


def test_a_command_on_two_pages_runs_once():
    calls = []
    run_once = readme.remembering(lambda command: calls.append(command) or command)
    assert [run_once("a"), run_once("b"), run_once("a")] == ["a", "b", "a"] and calls == ["a", "b"]


def test_anchors_are_made_as_the_page_makes_them():
    assert readme.slug("Third lab: paged KV, as vLLM schedules it") == "third-lab-paged-kv-as-vllm-schedules-it"

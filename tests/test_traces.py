"""Request files of six sources: a few rows of each by hand with the oddities of the real ones, and what is refused."""

import gzip
import json

import pytest
from common import BadInput, Requests
from fixture import SHIPPED, STEPS, script
from traces import load_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
BENCH = {"input_lens": [7, 9, 8], "output_lens": [3, 0, 2], "start_times": [0.5, 0.25, 0.0], "ttfts": [], "duration": 9.0}


def mooncake(*rows):
    keys = ("timestamp", "input_length", "output_length", "hash_ids")
    return "".join(json.dumps(dict(zip(keys, row))) + "\n" for row in rows)


GOOD = {  # what: (text, prompts, outputs, arrivals in us, rows left out)
    "lab list": ('[{"prompt_tokens": 5, "output_tokens": 2}, {"prompt_tokens": 4, "output_tokens": 1}]', [5, 4], [2, 1], None, 0),
    "lab list with arrivals, out of order and equal": (
        '[{"prompt_tokens": 5, "output_tokens": 2, "arrival_ms": 12.5}, {"prompt_tokens": 4, "output_tokens": 1, "arrival_ms": 10},'
        ' {"prompt_tokens": 3, "output_tokens": 9, "arrival_ms": 12.5}]', [4, 5, 3], [1, 2, 9], [0, 2500, 2500], 0,
    ),
    "lab lines, and a blank one": ('{"prompt_tokens": 5, "output_tokens": 2}\n\n{"prompt_tokens": 4, "output_tokens": 1}\n',
                                   [5, 4], [2, 1], None, 0),
    "one line": ('{"prompt_tokens": 5, "output_tokens": 2}', [5], [2], None, 0),
    "vLLM, a failed request, out of order": (json.dumps(BENCH), [8, 7], [2, 3], [0, 500_000], 1),
    "vLLM, indented": (json.dumps(BENCH, indent=1), [8, 7], [2, 3], [0, 500_000], 1),
    "vLLM without start times": (json.dumps({"input_lens": [7], "output_lens": [3]}), [7], [3], None, 0),
    "Azure 2023: seven digits, CRLF, a failed row, equal times, out of order": (
        AZURE + "2023-11-16 18:15:47.6805900,374,44\r\n2023-11-16 18:15:46.6805901,396,109\r\n"
        "2023-11-16 18:15:47.6805900,12,7\r\n2023-11-16 18:15:48,12,0\r\n",
        [396, 374, 12], [109, 44, 7], [0, 1_000_000, 1_000_000], 1,
    ),
    "Azure 2024: a zone, over midnight, a further column": (
        "TIMESTAMP,ContextTokens,GeneratedTokens,Extra\n2024-05-10 23:59:59.009930+00:00,1,2,x\n2024-05-11T00:00:00.509930Z,3,4,y\n",
        [1, 3], [2, 4], [0, 1_500_000], 0,
    ),
    "Azure, another zone": (AZURE + "2024-05-10 12:00:00+00:00,1,2\n2024-05-10 14:00:01+02:00,3,4\n", [1, 3], [2, 4], [0, 1_000_000], 0),
    "BurstGPT, more columns": (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type,Session ID\n"
        "5,ChatGPT,472,18,490,Conversation log,a\n45.5,GPT-4,1087,0,1087,API log,b\n118,ChatGPT,417,276,693,Conversation log,c\n",
        [472, 417], [18, 276], [0, 113_000_000], 1,
    ),
    "Mooncake": (mooncake((27482, 700, 52, [46, 47]), (30535, 600, 26, [46, 9])), [700, 600], [52, 26], [0, 3_053_000], 0),
    "Vidur": ("arrived_at,num_prefill_tokens,num_decode_tokens\n0.125,374,44\n1,0,9\n4.5,396,109\n", [374, 396], [44, 109], [0, 4_375_000], 1),
}


@pytest.mark.parametrize("how", ["plain", "gzipped", "with a byte-order mark"])
@pytest.mark.parametrize("what", GOOD)
def test_every_source(tmp_path, what, how):
    text, prompts, outputs, arrivals_us, left_out = GOOD[what]
    content = text.encode("utf-8-sig" if "mark" in how else "utf-8")
    path = tmp_path / "requests"
    path.write_bytes(gzip.compress(content) if how == "gzipped" else content)
    trace = load_trace(path)
    assert trace.requests == Requests(prompts, outputs)
    assert trace.arrivals_us == arrivals_us
    assert trace.left_out == left_out
    assert ("1 failed requests (0 tokens) left out" in str(trace)) == (left_out == 1)


def test_a_prefix_of_mooncakes_blocks(tmp_path):
    """Blocks of 512 tokens; the last one of a request ends with its prompt."""
    path = tmp_path / "trace.jsonl"
    path.write_text(mooncake((0, 700, 52, [46, 47]), (1, 512, 26, [46])))
    assert load_trace(path).prefixes == [[(46, 512), (47, 700)], [(46, 512)]]


def test_the_first_requests_are_the_first_to_arrive(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n9,1,1\n5,2,2\n7,3,0\n6,4,4\n")
    trace = load_trace(path, first=2)
    assert trace.requests == Requests([2, 4], [2, 4]) and trace.arrivals_us == [0, 1_000_000]


BAD = {
    "nothing": ("", "this one begins with nothing"),
    "another csv": ("time,tokens\n1,2\n", 'understood are a JSON list'),
    "a columns' order": ("ContextTokens,TIMESTAMP,GeneratedTokens\n", "not a request file"),
    "another object": ('{"hello": 1}', "not a request file"),
    "a lab line among Mooncake's": (mooncake((0, 7, 5, [])) + '{"prompt_tokens": 1}\n', "row 1: input_length: expected a whole number"),
    "no JSON on line 3": ('{"prompt_tokens": 5, "output_tokens": 2}\n\n{oops\n', "line 3: not JSON"),
    "a defect in a lab line": ('{"prompt_tokens": 5, "output_tokens": 2}\n{"prompt_tokens": 5}\n', "record 1: output_tokens is missing"),
    "zero in the lab's own": ('{"prompt_tokens": 5, "output_tokens": 0}\n', "record 0: output_tokens: expected a whole number from 1"),
    "an arrival missing": ('[{"prompt_tokens": 5, "output_tokens": 2, "arrival_ms": 1}, {"prompt_tokens": 5, "output_tokens": 2}]',
                           "record 1: arrival_ms: expected a time, found null"),
    "NaN for a time": ('[{"prompt_tokens": 5, "output_tokens": 2, "arrival_ms": NaN}]', "arrival_ms: expected a time, found NaN"),
    "Azure: no date": (AZURE + "2023-11-16 18:15:46,1,2\nyesterday,3,4\n", 'row 1 (line 3): TIMESTAMP: expected a date and time, found "yesterday"'),
    "Azure: no such day": (AZURE + "2023-02-30 18:15:46,1,2\n", "row 0 (line 2): TIMESTAMP: expected a date and time"),
    "Azure: a negative count": (AZURE + "2023-11-16 18:15:46,1,-2\n", 'row 0 (line 2): GeneratedTokens: expected a whole number from 0'),
    "Azure: a fraction of a token": (AZURE + "2023-11-16 18:15:46,1.5,2\n", "row 0 (line 2): ContextTokens: expected a whole number"),
    "a short row": (BURST + "5,ChatGPT,472\n", "row 0 (line 2): expected 6 columns, found 3"),
    "infinite seconds": (BURST + "inf,ChatGPT,472,18,490,x\n", "Timestamp: expected a time"),
    "Vidur: no number": ("arrived_at,num_prefill_tokens,num_decode_tokens\nsoon,1,1\n", 'arrived_at: expected a time, found "soon"'),
    "every request failed": (BURST + "5,ChatGPT,472,0,472,x\n", "no request in it has tokens on both sides (1 rows, BurstGPT)"),
    "a header alone": (AZURE, "no request in it has tokens on both sides (0 rows, Azure)"),
    "vLLM: lists of two lengths": (json.dumps({**BENCH, "output_lens": [1]}), "must be lists of one length"),
    "vLLM: half a token": (json.dumps({**BENCH, "input_lens": [1.5, 2, 3]}), "request 0: input_lens: expected a whole number"),
    "Mooncake: hashes that are none": (mooncake((0, 7, 5, [1.5])), "row 0: hash_ids: expected a list of names"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_refused(tmp_path, what):
    text, says = BAD[what]
    path = tmp_path / "requests"
    path.write_text(text, newline="")
    with pytest.raises(BadInput) as refused:
        load_trace(path)
    assert says in str(refused.value) and str(refused.value).startswith(f"{path}: ")


def test_what_a_file_holds_worked_by_hand(tmp_path):
    """Prompts 10, 20, 30, gaps of 1 and 3 s: 2 s on average, so 0.5 requests/s, and a deviation of 1 s, half of that."""
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,1\n1,20,1\n4,30,1\n")
    assert script("traces", path, SHIPPED).stdout.splitlines()[:4] == [
        "trace.csv: 3 requests over 4.0 s (Vidur)",
        "  prompt_tokens: 10 to 30, median 20, mean 20.0, p99 29.8",
        "  output_tokens: 1 to 1, median 1, mean 1.0, p99 1.0",
        "  arrivals: 0.500 requests/s, coefficient of variation of the gaps 0.50",
    ]
    (tmp_path / "mooncake").write_text(mooncake((0, 700, 5, [1, 2]), (0, 700, 5, [1, 3])))
    assert script("traces", tmp_path / "mooncake").stdout.endswith("  prefixes: 4 blocks are named, 3 of them different\n")
    assert script("traces", tmp_path / "none").returncode == 2


def test_a_damaged_gzip_file(tmp_path):
    path = tmp_path / "requests.gz"
    path.write_bytes(gzip.compress(GOOD["Vidur"][0].encode())[:-9])
    with pytest.raises(BadInput, match="gzipped, but damaged"):
        load_trace(path)


@pytest.mark.parametrize("what", [what for what, row in GOOD.items() if row[3] is not None and row[4] == 0])
def test_every_format_round_trips_through_the_labs_own(tmp_path, what):
    path, again = tmp_path / "requests", tmp_path / "again.json"
    path.write_text(GOOD[what][0], newline="")
    trace = load_trace(path)
    rows = zip(*trace.requests, trace.arrivals_us)
    again.write_text(json.dumps([{"prompt_tokens": p, "output_tokens": o, "arrival_ms": us / 1000} for p, o, us in rows]))
    assert load_trace(again)[:2] == trace[:2]


@pytest.mark.parametrize("name", STEPS)
def test_the_steps_take_lengths_and_say_that_arrivals_are_ignored(tmp_path, name):
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,3\n1,5,0\n9,20,2\n")
    done = script(name, "--requests", path, "--out", tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith(
        "trace.csv: 2 requests over 9.0 s (Vidur); 1 failed requests (0 tokens) left out; when they arrived is ignored here\n")


def test_arrivals_in_the_labs_own_list_are_ignored_aloud(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text(GOOD["lab list with arrivals, out of order and equal"][0])
    assert "when they arrived is ignored here" in script("cost", "--requests", path, "--out", tmp_path).stdout


def test_first_takes_the_first_of_a_plain_list(tmp_path):
    assert script("static", "--first", 1, "--out", tmp_path).returncode == 0
    assert (tmp_path / "static.txt").read_text().startswith("total_steps=294 ")
    assert script("static", "--first", 0, "--out", tmp_path).returncode == 2

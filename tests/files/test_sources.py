"""Every source: a few rows of each by hand, with the oddities of the real files, and what is refused, in one line."""

import csv
import gc
import gzip
import json
import re
import time
import tracemalloc

import pytest
from files.arrivals import clocks_back, epoch_unit, grid_us, over_limit
from fixture import LAB as LAB_PAGE
from fixture import fed, script
from common import BadInput, MOST, Requests
from files.benchmarks import load_benches
from files.inputs import refuse_twins
from files.source_table import SOURCES, table_of_sources
from files.prefixes import block_size, shared_prefixes
from files.sources import load_trace
from traces import own_format

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
BENCH = {"input_lens": [7, 9, 8], "output_lens": [3, 0, 2], "start_times": [0.5, 0.25, 0.0], "ttfts": [],
         "duration": 9.0}


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def hashed(*rows):
    """JSON lines as Mooncake and Qwen-Bailian write them."""
    keys = ("timestamp", "input_length", "output_length", "hash_ids")
    return lines(*(dict(zip(keys, row)) for row in rows))


def guidellm(start, prompt=5, output=3, **more):
    return {"prompt_tokens": prompt, "output_tokens": output, "request_start_time": start, **more}


def aiperf(start_ns, prompt, output, error=None):
    metrics = {"input_sequence_length": {"value": prompt}, "output_sequence_length": {"value": output}}
    return {"metadata": {"request_start_ns": start_ns}, "metrics": {} if error else metrics, "error": error}


def perf(start, prompt, output, error=None):
    info = {"request_metrics": {"text": {"input_tokens": prompt}}, "response_metrics": {"output_tokens": output}}
    return {"start_time": start, "end_time": start + 0.1, "info": info, "error": error}


def llmperf(prompt, output, error=None):
    return {"number_input_tokens": prompt, "number_output_tokens": output, "ttft_s": 0.1, "error_code": error}


GOOD = {  # what: (text, source, prompts, outputs, arrivals in us, how the line about it ends)
    "lab list": ('[{"prompt_tokens": 5, "output_tokens": 2}, {"prompt_tokens": 4, "output_tokens": 1}]',
                 "this lab", [5, 4], [2, 1], None, ""),
    "lab list with arrivals, out of order and equal": (
        '[{"prompt_tokens": 5, "output_tokens": 2, "arrival_ms": 12.5},'
        ' {"prompt_tokens": 4, "output_tokens": 1, "arrival_ms": 10},'
        ' {"prompt_tokens": 3, "output_tokens": 9, "arrival_ms": 12.5}]',
        "this lab", [4, 5, 3], [1, 2, 9], [0, 2500, 2500], ""),
    "lab lines with gaps": (lines({"gap": 2, "prompt_tokens": 5, "output_tokens": 2},
                                  {"gap": 0.5, "prompt_tokens": 4, "output_tokens": 1}),
                            "this lab", [5, 4], [2, 1], [0, 500_000], ""),
    "vLLM, errors": (json.dumps({**BENCH, "errors": ["refused", "", ""]}), "vLLM", [8, 9], [2, 1], [0, 250_000],
                     "; 1 failed request left out; 1 completed request without an output token, counted as one token"),
    "vLLM without start times": (json.dumps({"input_lens": [7], "output_lens": [3]}), "vLLM", [7], [3], None, ""),
    "vLLM, two runs, one of them over several lines": (
        json.dumps({**BENCH, "completed": 3}, indent=1) + "\n" + json.dumps({"input_lens": [4], "output_lens": [6]}),
        "vLLM", [8, 9, 7, 4], [2, 1, 3, 6], None,
        "; 2 runs in one file: when their requests arrived is not used"
        "; run 1: 1 completed request without an output token, counted as one token"),
    "Azure 2023: seven digits, CRLF, no token, equal times, out of order": (
        AZURE + "2023-11-16 18:15:47.6805900,374,44\r\n2023-11-16 18:15:46.6805901,396,109\r\n"
        "2023-11-16 18:15:47.6805900,12,7\r\n2023-11-16 18:15:48,12,0\r\n",
        "Azure", [396, 374, 12, 12], [109, 44, 7, 1], [0, 1_000_000, 1_000_000, 1_319_410],
        "; 1 completed request without an output token, counted as one token"),
    "Azure 2024: a zone, over midnight, a further column": (
        "TIMESTAMP,ContextTokens,GeneratedTokens,Extra\n2024-05-10 23:59:59.009930+00:00,1,2,x\n"
        "2024-05-11T00:00:00.509930+00:00,3,4,y\n", "Azure", [1, 3], [2, 4], [0, 1_500_000], ""),
    "Azure, with the unnamed columns of an index": (
        ",,TIMESTAMP,ContextTokens,GeneratedTokens\n0,0,2024-05-10 12:00:00,1,2\n1,1,2024-05-10 12:00:01,3,4\n",
        "Azure", [1, 3], [2, 4], [0, 1_000_000], ""),
    "BurstGPT, more columns": (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type,Session ID\n"
        "5,ChatGPT,472,18,490,Conversation log,a\n45.5,GPT-4,1087,0,1087,API log,b\n"
        "118,ChatGPT,417,276,693,Conversation log,c\n",
        "BurstGPT", [472, 417], [18, 276], [0, 113_000_000], "; 1 failed request left out"),
    "quotes, blanks and blank lines": (
        'Timestamp,"Model, or so",Request tokens,Response tokens\n\n5,"a, b",472, 18\n\n7,c,"1",2\n',
        "BurstGPT", [472, 1], [18, 2], [0, 2_000_000], ""),
    "Vidur": (VIDUR + "0.125,374,44\n1,0,9\n2,7,0\n4.5,396,109\n", "Vidur", [374, 7, 396], [44, 1, 109],
              [0, 1_875_000, 4_375_000],
              "; 1 request without a prompt left out"
              "; 1 completed request without an output token, counted as one token"),
    "Vidur, no arrivals": ("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3,2,5,1.5\n", "Vidur", [3],
                           [2], None, ""),
    "Vidur, cut off in its last line": (VIDUR + "1,374,44\n2,12,1\n3,12,10", "Vidur", [374, 12], [44, 1],
                                        [0, 1_000_000],
                                        "; 1 last line without a line end, where the file may be cut off, left out"),
    "Vidur, the largest numbers": (VIDUR + f"-1e12,{MOST},1\n0,1,{MOST}\n", "Vidur", [MOST, 1], [1, MOST],
                                   [0, 10**18], ""),
    "splitwise-sim": ("request_id,arrival_timestamp,prompt_size,token_size\n0,0.5,7,8\n1,0.75,9,10\n",
                      "splitwise-sim", [7, 9], [8, 10], [0, 250_000], ""),
    "Mooncake": (hashed((27482, 700, 52, [46, 47]), (30535, 600, 26, [46, 9])), "Mooncake", [700, 600], [52, 26],
                 [0, 3_053_000], "; hash_ids name blocks of 512 tokens, and prompts share some"),
    "Qwen-Bailian by its blocks": (hashed((1, 33, 5, [1, 2, 3]), (3, 16, 6, [4])), "Qwen-Bailian", [33, 16], [5, 6],
                                   [0, 2_000_000],
                                   "; hash_ids name blocks of 16 tokens, and no two prompts begin with the same one"),
    "Qwen-Bailian by its keys": (lines({"chat_id": 1, "timestamp": 1, "input_length": 5, "output_length": 2},
                                       {"chat_id": 1, "timestamp": 3, "input_length": 6, "output_length": 3}),
                                 "Qwen-Bailian", [5, 6], [2, 3], [0, 2_000_000], ""),
    "timed trace, microseconds since 1970": (
        lines({"timestamp": 1785000000000000, "input_length": 5, "output_length": 2},
              {"timestamp": 1785000002500000, "input_length": 6, "output_length": 3}),
        "timed trace", [5, 6], [2, 3], [0, 2_500_000], ""),
    "timed trace, dates": (
        lines({"timestamp": "2026-08-01T23:59:59.5-02:00", "input_length": 5, "output_length": 2},
              {"timestamp": "2026-08-02 02:00:02 UTC", "input_length": 6, "output_length": 3}),
        "timed trace", [5, 6], [2, 3], [0, 2_500_000], ""),
    "Dynamo": (lines(*({"timestamp": 7 * i, "input_length": 250 + i, "output_length": 2, "hash_ids": [0, i],
                        "context_len": 9} for i in (1, 2, 5))),
               "Dynamo", [251, 252, 255], [2, 2, 2], [0, 7000, 28_000],
               "; hash_ids name blocks of 128 tokens, and prompts share some"),
    "a session whose id is an object": (
        lines({"session_id": {"a": 1}, "timestamp": 0, "input_length": 5, "output_length": 2},
              {"session_id": {"a": 1}, "delay": 10, "input_length": 9, "output_length": 3}),
        "timed trace", [5, 9], [2, 3], None, "; turns of 1 session: their arrivals depend on the answers before them, and "
        "are not used"),
    "turns of a session": (
        lines({"session_id": "a", "timestamp": 0, "input_length": 5, "output_length": 2},
              {"session_id": "a", "delay": 10, "input_length": 6, "output_length": 3}), "timed trace", [5, 6], [2, 3],
        None, "; turns of 1 session: their arrivals depend on the answers before them, and are not used"),
    "multi-round-qa": ("prompt_tokens,generation_tokens,launch_time,user_id\n5,2,10.5,1\n9,3,11,1\n", "multi-round-qa",
                       [5, 9], [2, 3], None, "; turns of 1 session: their arrivals, over 0.5 s, depend on the answers "
                       "before them, and are not used"),
    "ServeGen, a failed row": ("request_id,timestamp,input_tokens,output_tokens,status_code\n0,0.5,5,2,200\n"
                               "1,0.6,7,0,500\n2,1,6,3,200\n", "ServeGen", [5, 6], [2, 3], [0, 500_000],
                               "; 1 failed request left out"),
    "usage log, ms since 1970": (lines({"time": 1785000000000, "prompt_tokens": 5, "completion_tokens": 2},
                                       {"time": 1785000000500, "prompt_tokens": 6, "completion_tokens": 3}),
                                 "usage log", [5, 6], [2, 3], [0, 500_000], ""),
    "usage log in a CSV with ;": ("created_at;input_tokens;output_tokens\n2026-08-01 12:00:00+00;5;2\n"
                                  "2026-08-01 12:00:00.25+00;6;3\n", "usage log", [5, 6], [2, 3], [0, 250_000], ""),
    "OpenAI usage, inside data, the first failed": (
        json.dumps({"object": "list", "data": [
            {"error": {"code": 429}}, {"created": 1785000000, "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
            {"created": 1785000001, "usage": {"prompt_tokens": 6, "completion_tokens": 3}}]}),
        "OpenAI usage", [5, 6], [2, 3], [0, 1_000_000], "; 1 failed request left out"),
    "LiteLLM": (
        "startTime,prompt_tokens,completion_tokens,status,cache_hit\n2026-08-01T12:00:01Z,5,2,success,False\n"
        "2026-08-01T12:00:00Z,0,0,failure,False\n2026-08-01T12:00:02Z,6,3,success,True\n", "LiteLLM", [5], [2], [0],
        "; 1 failed request left out; 1 request that the gateway answered from its own cache left out"),
    "Langfuse": (
        lines({"type": "SPAN", "startTime": "2026-08-01T12:00:00Z"},
              {"type": "GENERATION", "startTime": "2026-08-01T12:00:00Z", "usageDetails": {"input": 5, "output": 2}},
              {"type": "GENERATION", "startTime": "2026-08-01T12:00:01Z", "usageDetails": {"input": 6, "output": 3}}),
        "Langfuse", [5, 6], [2, 3], [0, 1_000_000], "; 1 observation that is no generation left out"),
    "whole floats, as pandas writes them": (VIDUR + "0,5.0,2.0\n1,6.0,3.0\n", "Vidur", [5, 6], [2, 3], [0, 1_000_000],
                                            ""),
    "the clocks of a file with zones do not go back": (
        AZURE + "2024-11-03 01:20:00Z,5,2\n2024-11-03 01:50:00Z,6,2\n2024-11-03 01:10:00Z,7,2\n", "Azure", [7, 5, 6],
        [2, 2, 2], [0, 600_000_000, 2_400_000_000], ""),
    "lab lines with arrivals and another time": (
        lines({"ts": 9, "arrival_ms": 5, "prompt_tokens": 5, "output_tokens": 2},
              {"ts": 8, "arrival_ms": 7, "prompt_tokens": 6, "output_tokens": 3}),
        "this lab", [5, 6], [2, 3], [0, 2000], ""),
    "not the lab's: another time": (
        lines({"ts": 1785000009, "prompt_tokens": 5, "output_tokens": 2},
              {"ts": 1785000008, "prompt_tokens": 6, "output_tokens": 3}), "usage log", [6, 5], [3, 2], [0, 1_000_000],
        ""),
    "the clocks go back": (
        AZURE + "2024-11-03 01:20:00,5,2\n2024-11-03 01:50:00,6,2\n2024-11-03 01:10:00,7,2\n", "Azure", [5, 6, 7],
        [2, 2, 2], [0, 1_800_000_000, 3_000_000_000], "; times step back by an hour before row 2, as clocks do in "
        "autumn: an hour is added from there on"),
    "no unit is needed at one moment": (lines(*[{"timestamp": 7, "input_length": 5, "output_length": 2}] * 2),
                                        "timed trace", [5, 5], [2, 2], [0, 0], ""),
    "hashes of no known block": (hashed((1.5, 100, 5, [1, 2, 3, 4, 5])), "timed trace", [100], [5], [0],
                                 "; hash_ids do not tell how many tokens are in a block: not used"),
    "guidellm report": (
        json.dumps({"benchmarks": [{"requests": {"successful": [guidellm(2.0), guidellm(1.0, 6)],
                                                 "incomplete": [guidellm(3.0)],
                                                 "errored": [guidellm(1.5, None, None)]}}]}),
        "guidellm", [6, 5], [3, 3], [0, 1_000_000], "; 2 failed requests left out"),
    "aiperf": (lines(aiperf(1_759_813_208_500_000_000, 5, 3), aiperf(1_759_813_207_500_001_000, 6, 4),
                     aiperf(1_759_813_208_000_000_000, 1, 1, {"code": 500})),
               "aiperf", [6, 5], [4, 3], [0, 999_999], "; 1 failed request left out"),
    "inference-perf": (json.dumps([perf(10.0, 5, 3), perf(10.5, 0, 0, {"error_type": "x"}), perf(11.0, 6, 0)]),
                       "inference-perf", [5, 6], [3, 1], [0, 1_000_000],
                       "; 1 failed request left out"
                       "; 1 completed request without an output token, counted as one token"),
    "guidellm, a closed loop": (
        lines(*(guidellm(float(i), request_end_time=i + 0.999) for i in range(10))), "guidellm", [5] * 10, [3] * 10,
        None, "; a closed loop of 1 client, whose start times are the server's doing: not used"),
    "llmperf": (json.dumps([llmperf(5, 3), llmperf(6, 0, 429), llmperf(7, 2)]), "llmperf", [5, 7], [3, 2], None,
                "; 1 failed request left out"),
}


@pytest.mark.parametrize("how", ["plain", "gzipped", "in two gzip members", "with a byte-order mark"])
@pytest.mark.parametrize("what", GOOD)
def test_every_source(tmp_path, what, how):
    text, source, prompts, outputs, arrivals_us, notes = GOOD[what]
    content = text.encode("utf-8-sig" if "mark" in how else "utf-8")
    path = tmp_path / "requests"
    if "gzip" in how:
        if "cut off" in what:
            pytest.skip("a gzip file says that it is whole")
        half = len(content) // 2 if "two" in how else len(content)
        content = gzip.compress(content[:half]) + gzip.compress(content[half:])
    path.write_bytes(content)
    trace = load_trace(path)
    assert trace.requests == Requests(prompts, outputs)
    assert (trace.source, trace.arrivals_us) == (source, arrivals_us)
    over = "" if arrivals_us is None else f" over {arrivals_us[-1] / 1e6:.1f} s"
    requests = "1 request" if len(prompts) == 1 else f"{len(prompts)} requests"
    assert str(trace) == f"{requests}{over} ({source}){notes}"
    assert trace.left_out == sum(int(note.split()[0]) for note in notes.split("; ")[1:] if note.endswith("left out"))


def test_each_row_of_the_table_has_rows_by_hand_and_stands_in_the_docs():
    assert {source for _, source, *_ in GOOD.values()} == {source.name for source in SOURCES}
    table = table_of_sources()
    for source in SOURCES:
        row = next(line for line in table.splitlines() if line.startswith(f"| {source.name} |"))
        assert all(word.split("|")[0] in row for word in (source.sign[0], source.prompt, source.output))
    assert "| arrived_at (s) |" in table and "| TIMESTAMP (date and time) |" in table and "(a mean)" in table
    assert len({line.count("|") for line in table.splitlines()}) == 1
    assert table in (LAB_PAGE / "plan.md").read_text(encoding="utf-8"), "make readme puts it there"
    assert script("traces", "--sources").stdout == table


@pytest.mark.parametrize("what", GOOD)
def test_every_source_goes_through_the_labs_own_format_and_back(tmp_path, what):
    path, again = tmp_path / "requests", tmp_path / "again.json"
    path.write_text(GOOD[what][0], newline="")
    trace = load_trace(path)
    again.write_text(own_format(trace))
    back = load_trace(again)
    assert back.source == "this lab"
    assert (back.requests, back.arrivals_us, back.prefixes, back.gaps_s) == (
        trace.requests, trace.arrivals_us, trace.prefixes, trace.gaps_s)


def test_the_first_requests_of_several_runs(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text(lines({**BENCH, "completed": 3}, {"input_lens": [4, 5], "output_lens": [6, 0]}))
    trace = load_trace(path, first=4)
    assert trace.requests.prompt_tokens == [8, 9, 7, 4] and trace.left_out == 0
    three = load_trace(path, first=3)
    assert three.requests.prompt_tokens == [8, 9, 7] and three.arrivals_us is None
    assert "2 runs in one file: when their requests arrived is not used; run 1: 1 completed" in str(three)
    assert (load_trace(path).left_out, load_trace(path, first=5).left_out) == (1, 1)


def test_the_first_requests_are_the_first_to_arrive_and_failures_after_them_are_not_counted(tmp_path):
    path = tmp_path / "requests"
    path.write_text(BURST + "9,x,1,1,2,y\n5,x,2,2,4,y\n4,x,7,0,7,y\n6,x,4,4,8,y\n8,x,3,0,3,y\n")
    trace = load_trace(path, first=2)
    assert trace.requests == Requests([2, 4], [2, 4]) and trace.arrivals_us == [0, 1_000_000] and trace.left_out == 1
    assert load_trace(path).left_out == 2
    path.write_text(json.dumps([llmperf(5, 3), llmperf(6, 0, 429), llmperf(7, 2), llmperf(6, 0, 429)]))
    assert [load_trace(path, first).left_out for first in (1, 2, None)] == [0, 1, 2]
    path.write_text(VIDUR + "1,374,44\n3,12,10")
    assert [load_trace(path, first).left_out for first in (1, 2)] == [0, 1], "the last line is later than the first"
    path.write_text(json.dumps([{**LAB, "gap": 3}, {**LAB, "gap": 0.5}, {**LAB, "gap": 0}]))
    trace = load_trace(path, first=2)
    assert (trace.gaps_s, trace.arrivals_us) == ([3, 0.5], [0, 500_000])


# --- prefixes -----------------------------------------------------------------------------------------------------


def test_a_prefix_is_what_prompts_share(tmp_path):
    """Blocks of 512 tokens: all three share 46, two of them 47 after it, and 48 is one prompt's own.
    A last block ends with its prompt."""
    path = tmp_path / "trace.jsonl"
    path.write_text(hashed((0, 700, 52, [46, 47]), (1, 1400, 5, [46, 47, 48]), (2, 512, 26, [46])))
    first, second, third = load_trace(path).prefixes
    (name, deeper) = first[0][0], first[1][0]
    assert first == ((name, 512), (deeper, 700)) and second == ((name, 512), (deeper, 1024)) and third == ((name, 512),)
    assert name != deeper
    assert load_trace(path, first=1).prefixes is None, "a prompt alone shares nothing"


def test_blocks_that_always_come_together_are_one_piece_and_a_name_means_all_before_it():
    """Both first prompts begin with 1 2 3: one piece of 48 tokens. 3 after 9 is another prefix."""
    prefixes = shared_prefixes([64, 64, 64, 0], [[1, 2, 3, 4], [1, 2, 3, 5], [9, 2, 3, 6], []], 16)
    assert prefixes == [((3, 48),), ((3, 48),), (), ()]
    assert shared_prefixes([32, 32], [["a", "b"], ["a", "b"]], 16) == [((2, 32),)] * 2


def test_the_labs_own_prefixes(tmp_path):
    path = tmp_path / "requests.json"
    record = {"prompt_tokens": 9, "output_tokens": 1}
    path.write_text(json.dumps([{**record, "prefixes": [["system", 4], [7, 9]]}, record]))
    assert load_trace(path).prefixes == [(("system", 4), (7, 9)), ()]
    for prefixes in ([["a", 10]], [["a", 0]], [["a", 4], ["b", 4]], [["a", "4"]], [["a"]], [[None, 4]], 7,
                     [["a", True]]):
        path.write_text(json.dumps([record, {**record, "prefixes": prefixes}]))
        with pytest.raises(BadInput, match="record 1: prefixes: expected a list of .name, tokens., growing"):
            load_trace(path)


@pytest.mark.parametrize("prompts, counts, size", [
    ([1000, 450], [2, 1], 512), ([1000, 700], [1, 1], 512), ([777, 638], [7, 5], 128), ([640, 640], [10, 10], 64),
    ([5, 6], [1, 1], None), ([100], [3], 32), ([100], [5], None), ([3000, 2951], [30, 30], None),
    ([48, 16], [3, 1], 16), ([3000, 100], [2, 30], None),
])
def test_the_size_of_a_block_is_the_one_that_fits(prompts, counts, size):
    """1000 tokens in 2 blocks: 512 in each, or 488 in the short one. 100 tokens in 3: 32, and 4 that have no name."""
    assert block_size(prompts, [range(count) for count in counts]) == size


# --- columns that the user names ----------------------------------------------------------------------------------

LOG = {"id": "x", "usage": {"in": 5, "out": 3}, "at": {"s": 1.5}, "state": "ok", "ttft_ms": 50, "ms": 70}


@pytest.mark.parametrize("unit, us", [("s", 1_000_000), ("ms", 1000), ("us", 1)])
def test_a_log_whose_columns_are_named(tmp_path, unit, us):
    named = ["prompt=usage.in", "output=usage.out", "arrival=at.s", f"unit={unit}", "error=state"]
    later = LOG | {"at": {"s": 4.5}}
    for text in (lines(LOG, later, later | {"state": "timeout"}), json.dumps([LOG, later, LOG | {"state": "x"}]),
                 json.dumps({"meta": {"page": 1}, "data": [LOG, later, LOG | {"state": "x"}]}),
                 "usage.in,usage.out,at.s,state\n5,3,1.5,ok\n5,3,4.5,ok\n5,3,4,bad\n"):
        (tmp_path / "log").write_text(text)
        trace = load_trace(tmp_path / "log", columns=named)
        assert (trace.requests, trace.arrivals_us, trace.left_out) == (Requests([5, 5], [3, 3]), [0, 3 * us], 1)


def test_a_date_and_what_is_no_name_in_columns(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("p,o,t\n5,2,2024-05-10 12:00:00\n6,3,2024-05-10 12:00:01\n")
    assert load_trace(path, columns=["prompt=p", "output=o", "arrival=t", "unit=date"]).arrivals_us == [0, 1_000_000]
    assert load_trace(path, columns=["prompt=p", "output=o"]).arrivals_us is None
    for words, says in [(["prompt=p"], "expected prompt=NAME output=NAME"),
                        (["prompt=p", "output=o", "x=y"], "found prompt=p output=o x=y"),
                        (["prompt=p", "output=o", "unit=h"], "unit: expected s, ms, us, ns, date, found h"),
                        (["prompt=p", "output=o", "log.csv"], "files go before --columns"),
                        (["prompt=p", "prompt=o", "output=o"], "at most once each"),
                        (["prompt=p", "output=tokens"], f"{path}: --columns: there is no tokens in it, but o, p, t"),
                        (["prompt=p", "output=o", "arrival=when"], "--columns: there is no when in it, but o, p, t")]:
        with pytest.raises(BadInput, match=re.escape(says)):
            load_trace(path, columns=words)
    path.write_text(lines({"b": {"in": 5, "out": 2}, "a": 1}))
    with pytest.raises(BadInput, match=re.escape("Name its columns (it has a, b.in, b.out): --columns prompt=NAME")):
        load_trace(path)
    path.write_text("a\vb,c\n1,2\n")
    with pytest.raises(BadInput, match=re.escape(r'(it has "a\u000bb", c)')):
        load_trace(path)


def test_traces_and_plan_take_columns(tmp_path):
    (tmp_path / "log").write_text(lines(*(LOG | {"at": {"s": i}} for i in range(3))))
    words = ["--columns", "prompt=usage.in", "output=usage.out", "arrival=at.s", "unit=s"]
    assert script("traces", tmp_path / "log", *words).stdout.startswith("log: 3 requests over 2.0 s (named by --colu")
    planned = script("plan", "--requests", tmp_path / "log", "--max-num-seqs", 8, "--out", tmp_path, *words)
    assert planned.returncode == 0, planned.stderr


def test_a_log_with_ttfts_and_gaps_or_latencies_is_a_benchmark(tmp_path):
    path = tmp_path / "log"
    path.write_text(lines(LOG | {"itls": [10, 10]}))
    named = ["prompt=usage.in", "output=usage.out", "arrival=at.s", "unit=s", "ttft=ttft_ms", "latency_unit=ms"]
    bench, = load_benches(path, [*named, "gaps=itls"])
    mean, = load_benches(path, [*named, "latency=ms"])
    assert mean.even and bench == mean._replace(even=False)
    assert (bench.ttfts_s, bench.itls_s, bench.starts_s) == ([0.05], [[0.01, 0.01]], [0])
    with pytest.raises(BadInput, match="it holds no times of tokens"):
        load_benches(path, named)


# --- the unit of time ---------------------------------------------------------------------------------------------

UNSETTLED = {
    "whole numbers": lines(*({"timestamp": i, "input_length": 5, "output_length": 2} for i in (0, 7000))),
    "fractions": lines(*({"timestamp": i, "input_length": 5, "output_length": 2} for i in (0.5, 7000.5))),
    "a chat_id, and blocks of 512": lines({"chat_id": 1, "timestamp": 0, "input_length": 700, "output_length": 2,
                                           "hash_ids": [1, 2]},
                                          {"chat_id": 1, "timestamp": 7000, "input_length": 700, "output_length": 2,
                                           "hash_ids": [1, 3]}),
}


@pytest.mark.parametrize("what", UNSETTLED)
def test_a_unit_that_nothing_settles_is_asked_for(tmp_path, what):
    path = tmp_path / "trace.jsonl"
    path.write_text(UNSETTLED[what])
    with pytest.raises(BadInput, match="timestamp: nothing in the file settles .* --time-unit ms or --time-unit s"):
        load_trace(path)
    assert load_trace(path, time_unit="s").arrivals_us == [0, 7_000_000_000]
    assert load_trace(path, time_unit="ms").arrivals_us == [0, 7_000_000]
    lengths = load_trace(path, timed=False)
    assert lengths.arrivals_us is None
    assert "timestamp: nothing in the file tells its unit: not used" in str(lengths)


# --- arrivals -----------------------------------------------------------------------------------------------------


def test_arrivals_on_a_grid():
    assert grid_us([0, 0, 3_000_000, 9_000_000, 9_000_000]) == 3_000_000
    assert grid_us([0, 0, 10_000, 30_000]) == 10_000
    assert grid_us([0, 0, 9_999, 29_997]) is None, "so fine a grid is no rounding"
    assert grid_us([0, 0, 3_000_001, 3_000_001, 6_000_000, 6_000_000]) == 3_000_000, "with some jitter"
    assert grid_us([0, 0, 3_000_001, 6_000_000]) is None
    assert grid_us([0, 1_000_000, 2_000_000]) is None, "nobody shares a moment"
    assert grid_us([*range(0, 19_000_000, 1_000_000), 18_000_000]) == 1_000_000, "every 20th does"
    assert grid_us([*range(0, 20_000_000, 1_000_000), 19_000_000]) is None, "every 21st"
    assert grid_us([0, 0, 5_000_000]) is None, "two moments"


def test_a_time_since_1970_tells_its_unit():
    assert [epoch_unit(1785 * 10**n, 1785 * 10**n + 1) for n in (6, 9, 12, 15)] == ["s", "ms", "us", "ns"]
    assert epoch_unit(946_684_800, 4_102_444_799) == "s" and epoch_unit(946_684_799, 10**9) is None
    assert epoch_unit(10**9, 4_102_444_800) is None and epoch_unit(0, 1785 * 10**6) is None


def test_clocks_that_go_back():
    """Each 20 minutes, and after the third an hour back: 40 minutes back in the file."""
    times = [0, 1200, 2400, 0, 1200]
    assert clocks_back(times, "s") == [3] and clocks_back([1000 * time for time in times], "ms") == [3]
    assert clocks_back([0, 1200, 2400, -1201, 0], "s") == [], "more than an hour"
    assert clocks_back([0, 1200, 2400, 1, 1200], "s") == [], "a gap longer than all others would lie between"
    assert clocks_back([0, 1200, 2400, 0, 1200, 1100], "s") == [], "not in order elsewhere"
    assert clocks_back([0, 9000, 8000, 17000], "s") == [], "less than half an hour"


@pytest.mark.parametrize("queue_times, rate, arrivals_us, note", [
    ([0, 0, 1, 2.5], 2.0, [0, 500_000, 1_000_000, 1_500_000], "; some were sent up to 2.5 s after they were due"),
    ([0, 1, 2, 4], 100.0, None, "; a closed loop of 1 client, too few for its rate of 100 requests/s, whose start"),
    ([0, 0, 0.1, 0.1], 2.0, None, "; a closed loop of 1 client, too few for its rate of 2 requests/s, whose start"),
    (None, 2.0, None, "; a closed loop of 1 client, too few for its rate of 2 requests/s, whose start times"),
    (None, "inf", None, "; a closed loop of 1 client, whose start times are the server's doing: not used"),
])
def test_a_rate_that_the_limit_did_not_let_through(tmp_path, queue_times, rate, arrivals_us, note):
    """One client, a second or two each. Due half a second apart by queue_times, or at once, or nearly when sent."""
    run = {"input_lens": [5] * 4, "output_lens": [1] * 4, "start_times": [0.0, 1.0, 2.0, 4.0], "ttfts": [1.0, 1, 2, 1],
           "itls": [[]] * 4, "max_concurrency": 1, "request_rate": rate, "duration": 5.0, "completed": 4}
    if arrivals_us or rate == 2.0:
        run["start_times"] = [0.0, 0.5, 2.0, 4.0]
    (tmp_path / "run").write_text(json.dumps(run | {"queue_times": queue_times}))
    trace = load_trace(tmp_path / "run")
    assert trace.arrivals_us == arrivals_us and trace.closed == (arrivals_us is None) and note in str(trace)


def test_more_requests_at_once_than_the_limit_lets_through(tmp_path):
    run = {"input_lens": [5] * 8, "output_lens": [1] * 8, "start_times": [3.0] * 8, "ttfts": [1.0] * 8,
           "itls": [[]] * 8, "max_concurrency": 4, "request_rate": "inf", "duration": 9.0, "completed": 8}
    (tmp_path / "run").write_text(json.dumps(run))
    assert str(load_trace(tmp_path / "run")) == ("8 requests (vLLM); more than its client's limit of 4 would have been "
                                                 "under way: start times not used")
    with pytest.raises(BadInput, match="by its start_times, more requests were under way than max_concurrency=4 lets"):
        load_benches(tmp_path / "run")
    spread = {"start_times": [0, 0.5, 2, 2.5, 4, 4.5, 6, 6.5], "request_rate": 2.0, "max_concurrency": 2}
    (tmp_path / "run").write_text(json.dumps(run | spread))
    assert "(vLLM); the client's limit of 2 was reached: some were sent later" in str(load_trace(tmp_path / "run"))
    assert not over_limit([0.0, 0.995], [1.0, 1.0], 1) and over_limit([0.0, 0.985], [1.0, 1.0], 1)


def test_a_closed_loop_that_no_field_tells(tmp_path):
    """aiperf, three clients who never pause: as many are under way all the time."""
    path = tmp_path / "profile_export.jsonl"
    records = [aiperf(10**18 + 10**9 * (i // 3), 5, 3) for i in range(12)]
    for record in records:
        record["metadata"]["request_end_ns"] = record["metadata"]["request_start_ns"] + 999_000_000
    path.write_text(lines(*records))
    trace = load_trace(path)
    assert trace.closed and trace.arrivals_us is None and "a closed loop of 3 clients" in str(trace)
    path.write_text(lines(*records[:9]))
    assert not load_trace(path).closed, "too few requests to tell"


# --- what is refused ----------------------------------------------------------------------------------------------

LAB = {"prompt_tokens": 5, "output_tokens": 2}
TIMED = {"input_length": 5, "output_length": 2}
BAD = {  # what: (text, what the line says)
    "another csv": ("time,tokens\n1,2\n", 'begins with "time,tokens\\n1,2\\n". Name its columns (it has time, tokens): '
                    '--columns prompt=NAME output=NAME arrival=NAME unit=s. Or write [{"prompt_tokens": 140, '
                    '"output_tokens": 294, "arrival_ms": 0}]. Known are this lab, vLLM, Azure, BurstGPT, Vidur'),
    "a text": ("hello\n", 'begins with "hello\\n". Name its columns: --columns'),
    "a number among records": (lines(LAB, 7), "record 1: expected an object, found 7"),
    "an empty list": ("[]", "the list of requests is empty"),
    "a column twice": ("num_prefill_tokens,num_decode_tokens,num_prefill_tokens\n1,2,3\n",
                       "the column num_prefill_tokens stands 2 times"),
    "JSON lines cut off": (lines(LAB, LAB)[:-3], "record 1: not JSON: Expecting value: line 2 column 39"),
    "too many brackets": ("[" * 100_000, "not JSON: maximum recursion depth"),
    "an arrival missing": (json.dumps([{**LAB, "arrival_ms": 1}, LAB]),
                           "record 1: arrival_ms: expected a time, as others have, found null"),
    "5000 digits for a time": ('[{"prompt_tokens": 5, "output_tokens": 2, "arrival_ms": ' + "7" * 5000 + "}]",
                               "not JSON: Exceeds the limit"),
    "a gap missing": (lines({**LAB, "gap": 1}, LAB), "record 1: gap: expected a time, as others have, found null"),
    "Azure: no date": (AZURE + "2023-11-16 18:15:46,1,2\nyesterday,3,4\n",
                       'row 1 (line 3): TIMESTAMP: expected a date and time, found "yesterday"'),
    "Azure: a fraction of a token": (AZURE + "2023-11-16 18:15:46,1.5,2\n",
                                     "row 0 (line 2): ContextTokens: expected a whole number"),
    "an open quote": (BURST + '5,"a,1,2,3,x\n' + "6,a,1,2,3,x\n" * 94, "row 0 (line 2): not CSV that we read"),
    "an underscore": (BURST + "5,a,1_000,2,1002,x\n",
                      'Request tokens: expected a whole number from 0 to 1,000,000,000, found "1_000"'),
    "an underscore in a time": (BURST + "1_000,a,1,2,3,x\n", 'Timestamp: expected a time, found "1_000"'),
    "a row after blank lines": (BURST + "\n\n5,a,1,2,3,x\n\nx,a,1,2,3,x\n",
                                "row 1 (line 6): Timestamp: expected a time"),
    "Vidur: times too far apart": (VIDUR + "0,1,1\n1.0001e12,1,1\n", "arrived_at: expected times up to "
                                   "1,000,000,000,000 s apart, found more"),
    "Vidur: no arrival": (VIDUR + "1,1,1\n,1,1\n", "row 1 (line 3): arrived_at: expected a time, as others"),
    "vLLM: a start time missing": (json.dumps({**BENCH, "start_times": [0.5, None, 0], "queue_times": [1] * 3,
                                                "completed": 3}),
                                   "request 1: start_times: expected a time, as others have, found null"),
    "Mooncake: hashes that are none": (hashed((0, 7, 5, [1.5])), "record 0: hash_ids: expected a list of names"),
    "a null time after failures": (BURST + "5,a,1,2,3,x\n6,a,1,0,1,x\n,a,1,2,3,x\n", "row 2 (line 4): Timestamp: exp"),
    "a time that no float can hold": (json.dumps([{**LAB, "arrival_ms": 0.5}, {**LAB, "arrival_ms": 10**400}]),
                                      "record 1: arrival_ms: expected a time, found 1000"),
    "a null time in line 7": (lines(*({**TIMED, "timestamp": None if i == 6 else i} for i in range(9))),
                              "record 6: timestamp: expected a time, as others have, found null"),
    "guidellm: a report of another form": (json.dumps({"benchmarks": [{"requests": [1]}]}),
                                           "expected benchmarks[].requests.successful[]"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_refused(tmp_path, what):
    text, says = BAD[what]
    path = tmp_path / "requests"
    path.write_text(text, newline="", encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        load_trace(path)
    line = str(refused.value)
    assert says in line and line.startswith(f"{path}: ") and "\n" not in line and len(line) < 1000


def test_one_line_and_status_2_from_the_script(tmp_path):
    path = tmp_path / "requests"
    path.write_text(BAD["an underscore"][0])
    done = script("traces", path)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1
    assert script("traces", tmp_path / "none").returncode == 2


def test_more_text_than_a_lab_takes(tmp_path, monkeypatch):
    monkeypatch.setattr("files.inputs.MOST_BYTES", 1_000_000)
    path = tmp_path / "requests"
    for content in (b" " * 1_000_001, gzip.compress(b" " * 1_000_001)):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=f"{path}: expected at most 1 MB of text, found more"):
            load_trace(path)
    with pytest.raises(BadInput, match="/dev/zero: expected at most 1 MB"):
        load_trace("/dev/zero")
    for content in (b"[" + b" " * 999_999, gzip.compress(b"[" + b" " * 999_998 + b"\n")):
        path.write_bytes(content)
        with pytest.raises(BadInput, match="not JSON"):
            load_trace(path)


def test_a_pipe_is_read_once_and_may_be_asked_for_twice(tmp_path):
    path = tmp_path / "pipe"
    writer = fed(path, GOOD["Vidur"][0])
    assert load_trace(path) == load_trace(path) and len(load_trace(path).requests.prompt_tokens) == 3
    writer.join(5)


def test_the_same_result_given_twice(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text("[1]" if name == "b" else "[0]")
    refuse_twins([tmp_path / "a", tmp_path / "b", "no file:c1", "no file:c1"])
    with pytest.raises(BadInput, match="c: the same as .*a: expected each result once"):
        refuse_twins([tmp_path / "a", tmp_path / "b", tmp_path / "c"])


@pytest.mark.parametrize("damage", ["cut", "bit", "rubbish after it"])
def test_a_damaged_gzip_file(tmp_path, damage):
    path = tmp_path / "requests.gz"
    content = bytearray(gzip.compress(GOOD["Vidur"][0].encode()))
    if damage == "bit":
        content[len(content) // 2] ^= 4
    path.write_bytes({"cut": content[:-9], "bit": content, "rubbish after it": content + b"more"}[damage])
    with pytest.raises(BadInput, match="gzipped, but damaged"):
        load_trace(path)


@pytest.mark.parametrize("text",
                         [GOOD[what][0] for what in ("Vidur", "BurstGPT, more columns", "Qwen-Bailian by its blocks")])
def test_a_file_that_is_cut_off_anywhere_never_gives_a_wrong_number(tmp_path, text):
    path = tmp_path / "requests"
    path.write_text(text, newline="")
    whole = list(zip(*load_trace(path).requests))
    for end in range(len(text)):
        path.write_text(text[:end], newline="")
        try:
            rows = list(zip(*load_trace(path, timed=False).requests))
        except BadInput:
            continue
        assert rows == whole[: len(rows)]


def test_a_large_csv_file_is_read_alike_in_blocks_and_row_by_row(tmp_path):
    """20,000 rows: several blocks. A quote in the last row makes its block go row by row; a defect there is named."""
    path = tmp_path / "trace.csv"
    times = [f"{i // 3600:02d}:{i // 60 % 60:02d}:{i % 60:02d}.{i:07d}" for i in range(20_000)]
    rows = [f"2024-05-10 {time},{i % 977 + 1},{i % 331 + 1}\n" for i, time in enumerate(times)]
    path.write_text(AZURE + "".join(rows))
    trace = load_trace(path)
    assert trace.requests == Requests([i % 977 + 1 for i in range(20_000)], [i % 331 + 1 for i in range(20_000)])
    assert trace.arrivals_us == [round(i * 1_000_000.1) for i in range(20_000)]
    path.write_text(AZURE + "".join(row.replace(",", ',"', 1).replace(",", '",', 2).replace('",', ",",
                                                                                            1) for row in rows))
    assert load_trace(path)[:2] == trace[:2]
    path.write_text(AZURE + "".join(rows[:-1]) + "2024-05-10 05:00:00,1,x\n")
    with pytest.raises(BadInput, match=r"row 19999 \(line 20001\): GeneratedTokens"):
        load_trace(path)
    path.write_text(AZURE + "".join(rows[:-1]) + "2024-05-10 05:00:00,1\n")
    with pytest.raises(BadInput, match=r"row 19999 \(line 20001\): expected 3 cells, as in the header, found 2"):
        load_trace(path)


def seconds_of(work):
    """The processor time of the fastest of fifteen tries, without that of collecting the tests' own garbage."""
    gc.collect()
    gc.freeze()
    tries = []
    for _ in range(15):
        start = time.process_time()
        work()
        tries.append(time.process_time() - start)
    gc.unfreeze()
    return min(tries)


def test_csv_takes_at_most_3_3_times_as_long_as_splitting_it_and_300_bytes_a_request(tmp_path):
    path, n = tmp_path / "trace.csv", 20_000
    counts = [(i % 1999 + 1, i % 997) for i in range(n)]
    rows = (f"{3 * i}.0,ChatGPT,{p},{o},{p + o},Conversation log\n" for i, (p, o) in enumerate(counts))
    path.write_text(BURST + "".join(rows))

    def split():
        with path.open(newline="") as file:
            rows = csv.reader(file)
            next(rows)
            return [float(row[0]) for row in rows]

    assert seconds_of(lambda: load_trace(path)) <= 3.3 * seconds_of(split)
    tracemalloc.start()
    load_trace(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most <= 300 * n


def test_a_plain_list_takes_at_most_2_5_times_as_long_as_its_json(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text(json.dumps([{"prompt_tokens": i % 1999 + 1, "output_tokens": i % 997 + 1} for i in range(60_000)]))
    assert seconds_of(lambda: load_trace(path)) <= 2.5 * seconds_of(lambda: json.loads(path.read_text()))


def test_cached_tokens_that_only_later_blocks_have(tmp_path):
    path = tmp_path / "log.csv"
    key = "usage.prompt_tokens_details.cached_tokens"
    path.write_text(f"usage.prompt_tokens,usage.completion_tokens,{key}\n" + "8,1,0\n" * 300 + "8,1,4\n" * 300)
    assert "; its server had 25% of the prompt tokens in its cache, and here all are computed" in str(load_trace(path))
    assert str(load_trace(path, 300)) == "300 requests (OpenAI usage); its server had 0% of the prompt tokens in its " \
        "cache, and here all are computed"


def test_each_block_of_a_large_file_has_its_own_zone(tmp_path):
    path = tmp_path / "trace.csv"
    rows = [f"2024-05-10 12:00:{i % 60:02d}{zone},{i + 1},1\n" for zone in ("+02:00", "Z") for i in range(10_000)]
    path.write_text(AZURE + "".join(rows))
    arrivals_us = load_trace(path).arrivals_us
    assert max(arrivals_us[:10_000]) == 59_000_000 and min(arrivals_us[10_000:]) == 7_200_000_000

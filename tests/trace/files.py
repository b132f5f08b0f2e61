"""Small files in every trace format, three requests each: 0 s, 0.5 s and 2 s; 100, 200, 300 tokens in."""

from __future__ import annotations

import json

PROMPTS, OUTPUTS = [100, 200, 300], [10, 20, 30]
ARRIVALS_NS = [0, 500_000_000, 2_000_000_000]


def _jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _mooncake(start: float, unit: float, block: int, **extra: int) -> str:
    rows = []
    for number, (prompt, output) in enumerate(zip(PROMPTS, OUTPUTS, strict=True)):
        ids = [0, *range(10 * number + 1, 10 * number + -(-prompt // block))]
        time = start + ARRIVALS_NS[number] / unit
        rows.append(
            {"timestamp": time, "input_length": prompt, "output_length": output, "hash_ids": ids, **extra}
        )
    return _jsonl(*rows)


def _aiperf() -> str:
    rows = []
    for number, (at, prompt, output) in enumerate(zip(ARRIVALS_NS, PROMPTS, OUTPUTS, strict=True)):
        start = 1759813207532900363 + at
        metadata = {
            "x_request_id": f"r{number}",
            "x_correlation_id": f"c{number // 2}",
            "turn_index": number % 2,
            "request_start_ns": start,
            "request_end_ns": start + 100,
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        }
        metrics = {
            "input_sequence_length": {"value": prompt, "unit": "tokens"},
            "output_sequence_length": {"value": output, "unit": "tokens"},
        }
        rows.append({"metadata": metadata, "metrics": metrics, "error": None})
    rows.append(
        {"metadata": {"request_start_ns": 1, "was_cancelled": True}, "metrics": {}, "error": {"code": 499}}
    )
    return _jsonl(*rows)


def _guidellm() -> str:
    successful = [
        {
            "request_id": f"g{number}",
            "request_start_time": 1700000000.25 + at / 1e9,
            "prompt_tokens": prompt,
            "output_tokens": output,
        }
        for number, (at, prompt, output) in enumerate(zip(ARRIVALS_NS, PROMPTS, OUTPUTS, strict=True))
    ]
    requests = {"successful": successful, "incomplete": [{}], "errored": []}
    return json.dumps({"metadata": {}, "benchmarks": [{"requests": requests}]}, indent=1)


def _bench(**extra: object) -> str:
    result = {
        "date": "20250101",
        "completed": 3,
        "input_lens": [*PROMPTS, 7],
        "output_lens": [*OUTPUTS, 0],
        "errors": ["", "", "", "boom"],
        **extra,
    }
    return json.dumps(result)


def _sharegpt() -> str:
    entries: list[object] = [
        {
            "id": f"s{number}",
            "conversations": [
                {"from": "human", "value": "word " * (prompt * 3 // 4)},
                {"from": "gpt", "value": "word " * (output * 3 // 4)},
            ],
        }
        for number, (prompt, output) in enumerate(zip([100, 200, 300], [12, 20, 32], strict=True))
    ]
    return json.dumps([*entries, {"id": "x", "conversations": [{"from": "gpt", "value": "hello"}]}])


LLMSERVINGSIM = _jsonl(
    {"input_toks": 100, "output_toks": 10, "arrival_time_ns": 7, "input_tok_ids": list(range(100))},
    {"input_toks": 200, "output_toks": 20, "arrival_time_ns": 500_000_007, "input_tok_ids": list(range(200))},
    {"input_toks": 300, "output_toks": 30, "arrival_time_ns": 2_000_000_007},
)

FILES: dict[str, tuple[str, str]] = {
    "azure": (
        "azure.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.0000000,100,10\r\n"
        "2023-11-16 18:15:46.5000000,200,20\r\n2023-11-16 18:15:48.0000000,300,30",
    ),
    "plain": ("plain.csv", "arrival_s,prompt_tokens,output_tokens\n0,100,10\n0.5,200,20\n2,300,30\n"),
    "burstgpt": (
        "burst.csv",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,100,10,110,Conversation log\n5.5,GPT-4,200,20,220,API log\n"
        "6,ChatGPT,50,0,50,API log\n7,ChatGPT,300,30,330,API log\n",
    ),
    "mooncake": ("mooncake.jsonl", _mooncake(27482, 1e6, 512)),
    "bailian": ("bailian.jsonl", _mooncake(61.114, 1e9, 16, chat_id=159, parent_chat_id=-1, turn=1)),
    "vidur": (
        "vidur.csv",
        "arrived_at,num_prefill_tokens,num_decode_tokens\n1.25,100,10\n1.75,200,20\n3.25,300,30\n",
    ),
    "splitwise": (
        "splitwise.csv",
        "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
        "0,2,0,1,1,100,10\n1,2,0,1.5,1,200,20\n2,2,0,3,1,300,30\n",
    ),
    "llmservingsim": ("llmservingsim.jsonl", LLMSERVINGSIM),
    "aiperf": ("profile_export.jsonl", _aiperf()),
    "guidellm": ("guidellm.json", _guidellm()),
    "serving_bench": ("bench.json", _bench(start_times=[12.5, 13.0, 14.5, 15.0])),
}
"""Format name: file name and content. ShareGPT has no arrivals and stands apart."""

SHAREGPT = _sharegpt()
BENCH_WITHOUT_TIMES = _bench()

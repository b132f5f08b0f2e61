"""Public traces that `trace fetch` knows: where they are, what they must hash to, who owns them."""

from __future__ import annotations

from dataclasses import dataclass

AZURE_2023 = "https://raw.githubusercontent.com/Azure/AzurePublicDataset/master/data/"
AZURE_2024 = "https://github.com/Azure/AzurePublicDataset/releases/download/dataset-llm-2024/"
BURSTGPT = "https://github.com/HPMLL/BurstGPT/releases/download/v2.0/"
MOONCAKE = (
    "https://raw.githubusercontent.com/kvcache-ai/Mooncake/"
    "3cca71daccf2a7afb8fe3f0295358f70e3a69fdb/FAST25-release/traces/"
)


@dataclass(frozen=True)
class PublicTrace:
    """A file to download."""

    url: str
    sha256: str
    meaning: str
    licence: str
    size_mb: float

    @property
    def file_name(self) -> str:
        """Its name in the cache."""
        return self.url.rpartition("/")[2]


def _azure(url: str, sha256: str, meaning: str, size_mb: float) -> PublicTrace:
    return PublicTrace(url, sha256, meaning, "CC-BY 4.0, Azure/AzurePublicDataset", size_mb)


def _burstgpt(name: str, sha256: str, meaning: str, size_mb: float) -> PublicTrace:
    return PublicTrace(BURSTGPT + name, sha256, meaning, "CC-BY 4.0, HPMLL/BurstGPT", size_mb)


def _mooncake(name: str, sha256: str, meaning: str, size_mb: float) -> PublicTrace:
    return PublicTrace(MOONCAKE + name, sha256, meaning, "Apache-2.0, kvcache-ai/Mooncake", size_mb)


CATALOGUE: dict[str, PublicTrace] = {
    "azure-2023-conv": _azure(
        AZURE_2023 + "AzureLLMInferenceTrace_conv.csv",
        "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
        "one hour of a conversation service, 19,366 requests",
        0.7,
    ),
    "azure-2023-code": _azure(
        AZURE_2023 + "AzureLLMInferenceTrace_code.csv",
        "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
        "one hour of a code completion service, 8,819 requests",
        0.3,
    ),
    "azure-2024-conv": _azure(
        AZURE_2024 + "AzureLLMInferenceTrace_conv_1week.csv",
        "a0cc9b969a9bbf0fd811802cbf4323edd3a209ace791e3799ad4f9207f213941",
        "a week of a conversation service, 27.3 million requests",
        1135,
    ),
    "azure-2024-code": _azure(
        AZURE_2024 + "AzureLLMInferenceTrace_code_1week.csv",
        "71de5c55cbc35f8f1ed0b6b7806b4cd1e9764b0058469725a6aac98023a1448f",
        "a week of a code completion service, 16.8 million requests",
        692,
    ),
    "burstgpt-1": _burstgpt(
        "BurstGPT_without_fails_1.csv",
        "a4d068a7113ec0290e74063a1b3447dc6001a30e4298eb313581b71006dda1f4",
        "ChatGPT and GPT-4 at a campus, months 1 and 2, 1.4 million requests",
        51,
    ),
    "burstgpt-2": _burstgpt(
        "BurstGPT_without_fails_2.csv",
        "56193aa9b2bb26128ded43d2d29a960df6bf5af062bcfc9b005f3fcaa4e6e501",
        "months 3 and 4, 3.8 million requests",
        142,
    ),
    "burstgpt-3": _burstgpt(
        "BurstGPT_without_fails_3.csv",
        "3326259f9efb11845bc5ef85fa97e6f691050b0974621c91ef22acd566c43a40",
        "later months, with session ids and elapsed times",
        217,
    ),
    "mooncake-conversation": _mooncake(
        "conversation_trace.jsonl",
        "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
        "one hour of Kimi chat with prefix hashes, 12,031 requests",
        3,
    ),
    "mooncake-toolagent": _mooncake(
        "toolagent_trace.jsonl",
        "48a2db1a13d3bc05e6330140c64f604ba366df20d3c9e128b5c35a01c1fa5f71",
        "one hour of tool and agent calls with prefix hashes, 23,608 requests",
        6,
    ),
    "mooncake-synthetic": _mooncake(
        "synthetic_trace.jsonl",
        "bd070915a98fc0ed264d7cfef2ce746002eb3076a695ec31ba2674c0111ec131",
        "a mix of public datasets with prefix hashes, 3,993 requests",
        1,
    ),
}
"""By the name given to `trace fetch`."""

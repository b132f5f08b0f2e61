"""The KV cache: who holds how many blocks, and by which rule they are given out."""

from sim.kv.blocks import BlockLedger
from sim.kv.memory import MEMORY_RULES, MemoryRule, Paged, Reserve
from sim.kv.prefix import PrefixCache

__all__ = ["MEMORY_RULES", "BlockLedger", "MemoryRule", "Paged", "PrefixCache", "Reserve"]

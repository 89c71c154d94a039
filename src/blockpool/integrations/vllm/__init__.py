"""Puts blockpool's parts in the place of vLLM's own: the plugin `blockpool` of vLLM's `vllm.general_plugins`.

vLLM calls `register` in each of its processes. Nothing happens unless the environment says `BLOCKPOOL_VLLM=1`, or
`BLOCKPOOL_VLLM=check`; docs/vllm.md says what then does. Importing this imports nothing of vLLM.
"""

from blockpool.integrations.vllm.plugin import register

__all__ = ["register"]

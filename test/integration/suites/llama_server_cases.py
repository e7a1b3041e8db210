"""What llama-server's own tests ask of a server with one text model, and what they want of the answer's
shape (ggml-org/llama.cpp, tools/server/tests/unit, read in November 2026). Texts depend on the model and are
left out."""

from llama_completion import BASIC, COMPLETION
from llama_chat import CHAT
from llama_context import CONTEXT, TOKENIZE, TEMPLATE, TOOLS
from llama_access import SECURITY, EMBEDDING, RERANK, INFILL
from llama_apis import ANTHROPIC, RESPONSES

CASES = [
    *BASIC,
    *COMPLETION,
    *CHAT,
    *CONTEXT,
    *TOKENIZE,
    *TEMPLATE,
    *TOOLS,
    *SECURITY,
    *EMBEDDING,
    *RERANK,
    *INFILL,
    *ANTHROPIC,
    *RESPONSES,
]

"""Knowledge bases of plain text in other people's programs: a retriever of LangChain and of LlamaIndex, and an MCP server."""

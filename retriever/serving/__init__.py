"""Ways to an index for others: agents over MCP, a browser, a process that stays open."""

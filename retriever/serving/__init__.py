"""What others reach an index through: agents over MCP, a browser, a process that stays open."""

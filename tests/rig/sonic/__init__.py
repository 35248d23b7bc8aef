"""SONiC's models of CONFIG_DB, and tables that are checked against them."""

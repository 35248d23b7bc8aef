"""The observer on OpenFlow: links, hosts and unplanned flows."""

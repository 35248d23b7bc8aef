"""The names that no code of the product uses, and who uses them. Vulture reads this file; nothing imports it.

Names that only tests use do not belong here, unless people use them in the laboratory.
"""

from __future__ import annotations

from types import SimpleNamespace

_ = SimpleNamespace()

# Ryu's own names: it finds the application and its versions by them.
_.FairspineApp
_.OFP_VERSIONS
_.is_active
_.datapath_connection_factory

# Falcon calls responders, middleware and converters by these names.
_.on_head
_.on_options
_.process_request
_.process_resource
_.process_response

# Overridden methods and attributes of the standard library, eventlet and NumPy.
_.send_error
_.get_content_type
_.rbufsize
_.wbufsize
_.append_nul
_.createSocket
_.handleError
_.socktype
_.unixsocket
_.serve_forever
_.readable
_.isolation_level
_.writeable
_.sig  # the parameter of a protocol's method, as subprocess.Popen calls it

# inspect.signature and Typer read a command's options from these.
_.__signature__
_.__annotations__

# Numba calls the methods of its events' listeners.
_.on_start
_.on_end
_._cache_path

# pydantic reads the configuration of its models.
_.model_config

# Keys of the rows of fabric files, which are dictionaries, and fields of the documents of the HTTP interface.
_.a_port
_.b_port
_.a_interface
_.b_interface
_.planned_weight
_.dscp
_.most_jobs
_.most_changes

# Alembic reads the variables of migrations, and calls downgrade.
_.down_revision
_.branch_labels
_.depends_on
_.downgrade

# Fields of HiGHS's model.
_.num_col_
_.num_row_
_.col_cost_
_.col_lower_
_.col_upper_
_.row_lower_
_.row_upper_
_.format_
_.start_
_.index_
_.value_
_.integrality_

# Fields of Chakra's messages.
_.bool_val
_.int64_val
_.string_val

# Values of options on the command line: Typer makes them of text.
_.PLAN
_.DRIFT
_.SCHEDULE
_.RANDOM
_.BITMAP
_.MIXED

# Fields of HTTP documents, and of rows and counters that are written as a whole.
_.step_seconds
_.cabling
_.rate_gbps
_.pace_gbps
_.backups
_.dead_paths
_.destinations_digest
_.table_digest
_.changes_of
_.number
_.paths
_.lost_probes
_.slowest_us
_.utilisation
_.background_gbps
_.next_before
_.load_gbps
_.computed
_.moved_count
_.src_rank
_.dst_rank
_.worst_seed
_.plan_min_speed
_.bus_gbps
_.qp_numbers  # a member of a job document, read by its name
_.rx_packets
_.tx_packets
_.duplicates
_.out_of_sequence
_.unknown_qp
_.send_failures

# Part of results that people read in Python.
_.bound_split_exact
_.link_bytes
_.planning_seconds

# Mininet's: it finds topologies by ``topos``, calls a switch's ``dpctl``, and reads ``inited``.
_.topos
_.dpctl
_.inited

# The laboratory's, for people (docs/how-to/lab.md) and for tests on real switches.
_.configure_bgp
_.with_extra
_.each_once
_.configure_bgp

# An observation: the window of a sender.
_.outstanding

# The fabric's counterparts of ``up_link`` and ``leaf_index``, which its tests compare.
_.down_link
_.spine_index

# Kinds of failures that clients name by their values.
_.SPINE
_.CORE

# ``http.client`` reads an answer from what this returns.
_.makefile

# An option of the controller that enforcements read by its name (Enforcement.options).
_.label_base
_.srv6_block
_.path_address_block
_.srv6_cables
_.probe_burst
_.probe_last_leaf
_.probe_sampled_rate
_.shim  # documents of doctor
_.probe_rate
_.probe_router_rate
_.probe_seconds

# Ryu's BGP speaker calls this method of filters.
_.clone

# Fields of answers, which clients read.
_.before_expected
_.oldest_seconds
_.planned_qps
_.after_expected

# What tests need of the client of HTTP.
_.on_new_connection

# Members of the document of circuits, which readers of the HTTP interface use.
_.seconds_now
_.over_bound
_.from_
_.from_nic
_.to_nic

"""Open the outputs of the log, as Ryu's options and those of the controller say."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from logging.handlers import WatchedFileHandler
from typing import Any

from controller.logs.line_formats import FORMATS, SyslogLines
from controller.logs.syslog import LOCAL, SyslogDatagrams, parse_address
from controller.model.errors import InputError


def set_up(conf: Any, *, log_format: str, log_syslog: str, open_outputs: Callable[[], None]) -> None:
    """Open the outputs, and let lines have their format.

    Args:
        conf: Ryu's options, of which those of logging keep their meaning.
        log_format: a key of ``FORMATS``.
        log_syslog: where syslog messages go (``parse_address``); empty: nowhere, unless Ryu's ``use_syslog`` is set.
        open_outputs: Ryu's function that adds the handlers of its options to the root logger.

    Raises:
        InputError: an output cannot be opened, or options contradict each other.
    """
    if conf.log_config_file:
        if log_format != "text" or log_syslog:
            name = "log_syslog" if log_syslog else "log_format"
            raise InputError("cannot be used with log_config_file, which describes the whole log", field=name)
        _opened(open_outputs, "log_config_file", conf.log_config_file)
        return
    syslog = log_syslog or (LOCAL if conf.use_syslog else "")
    # Ryu's own handler fails at the start if there is no daemon, and blocks the event loop while one is slow.
    conf.set_override("use_syslog", False)
    address = parse_address(syslog) if syslog else None
    _opened(open_outputs, "log_file" if conf.log_file else "log_dir", conf.log_file or conf.log_dir)
    root = logging.getLogger()
    for handler in root.handlers:
        # Other handlers belong to a program that embeds this one.
        if type(handler) in (logging.StreamHandler, WatchedFileHandler):
            handler.setFormatter(FORMATS[log_format]())
    if address is not None:
        sender = SyslogDatagrams(address)
        sender.setFormatter(SyslogLines(as_json=log_format == "json", pid=os.getpid()))
        root.addHandler(sender)
    logging.captureWarnings(True)


def _opened(open_outputs: Callable[[], None], option: str, value: object) -> None:
    try:
        open_outputs()
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        raise InputError(f"the log cannot be opened: {reason}", field=option, value=value) from None

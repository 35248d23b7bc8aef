"""Read pods with a label, their changes, the objects that own them, and nodes from a Kubernetes API server.

Nothing is written to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.cli.shared.command_error import CommandError
from controller.model.errors import InputError
from controller.workload.kubernetes.gangs import Gang, ObjectApi

CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0
"""Limits on connecting, and on the time without progress of a read."""


class ApiServerError(CommandError):
    """The API server is unreachable, or broke off; a later try may succeed."""


class ExpiredError(CommandError):
    """The API server has no changes since this version any more: pods must be listed anew."""


class KubernetesApi:
    """A connection to an API server, as a kubeconfig file or, inside a pod, its service account says.

    The official client is used, which knows the ways to log in (RFC 6750 tokens, client certificates, exec plug-ins).
    """

    def __init__(self, kubeconfig: Path | None, context: str | None, namespace: str | None, label: str) -> None:
        """Read the settings; nothing is asked yet.

        Args:
            kubeconfig: the file; ``None``: that of KUBECONFIG or ``~/.kube/config``, else the pod's service account.
            context: the context of the file; ``None``: the current one.
            namespace: the namespace to watch; ``None``: all.
            label: pods without this label are left out.

        Raises:
            InputError: the client is not installed, or there are no usable settings.
        """
        import yaml

        try:
            from kubernetes import client, config
        except ImportError:
            text = "needs the Kubernetes client: pip install 'fairspine[kubernetes]'"
            raise InputError(text, field="fairspine kubernetes") from None
        configuration = client.Configuration()
        try:
            if kubeconfig is None and context is None and _inside_a_pod():
                config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                config.load_kube_config(  # type: ignore[no-untyped-call]
                    None if kubeconfig is None else str(kubeconfig), context, configuration, persist_config=False
                )
        except (config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, AttributeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"cannot be used: {reason}", field="--kubeconfig", value=str(kubeconfig or "")) from None
        # The loop around this class tries again, with pauses.
        configuration.retries = 0
        self._client = client.ApiClient(configuration)
        self._namespace, self._label = namespace, label
        self.url = str(configuration.host)

    def pods(self) -> tuple[list[dict[str, Any]], str]:
        """Return all pods with the label, and the version from which changes follow.

        Raises:
            ApiServerError: there is no answer.
            CommandError: the API server refuses the request.
        """
        listed: list[dict[str, Any]] = []
        more = ""
        while True:
            page = self._read(self._list(limit=500, _continue=more) if more else self._list(limit=500))
            listed += page.get("items") or []
            more = page["metadata"].get("continue") or ""
            if not more:
                return listed, str(page["metadata"].get("resourceVersion", ""))

    def changes(self, version: str, seconds: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield changes of pods, ``ADDED``, ``MODIFIED`` or ``DELETED`` with the pod, for some seconds.

        Raises:
            ExpiredError: the version is too old.
            ApiServerError: the connection broke.
            CommandError: the API server refuses the request.
        """
        with self._reported():
            answer = self._list(
                watch=True,
                resource_version=version,
                timeout_seconds=seconds,
                # The server ends the answer after timeout_seconds; a connection that is silently dead ends a bit later.
                _request_timeout=(CONNECT_SECONDS, seconds + READ_SECONDS),
            )()
            try:
                self._check(answer)
                yield from _changes(answer.stream(None), self.url)
            finally:
                answer.close()
                answer.release_conn()

    def owner(self, gang: Gang, api: ObjectApi) -> Mapping[str, Any] | None:
        """Return the object of a gang; ``None``: it does not exist.

        Raises:
            ApiServerError: there is no answer.
            CommandError: the API server refuses the request.
        """
        from kubernetes import client

        objects = client.CustomObjectsApi(self._client)
        return self._read_if_there(
            lambda: objects.get_namespaced_custom_object(
                api.group, api.version, gang.namespace, api.plural, gang.name, **_RAW
            )
        )

    def node(self, name: str) -> Mapping[str, Any] | None:
        """Return a node; ``None``: it does not exist.

        Raises:
            ApiServerError: there is no answer.
            CommandError: the API server refuses the request.
        """
        from kubernetes import client

        return self._read_if_there(lambda: client.CoreV1Api(self._client).read_node(name, **_RAW))

    def _list(self, **options: Any) -> Callable[[], Any]:
        from kubernetes import client

        core = client.CoreV1Api(self._client)
        given = {**_RAW, "label_selector": self._label, **options}
        namespace = self._namespace
        if namespace is None:
            return lambda: core.list_pod_for_all_namespaces(**given)
        return lambda: core.list_namespaced_pod(namespace, **given)

    def _read_if_there(self, call: Callable[[], Any]) -> Mapping[str, Any] | None:
        try:
            return self._read(call)
        except _NotThereError:
            return None

    def _read(self, call: Callable[[], Any]) -> Mapping[str, Any]:
        with self._reported():
            answer = call()
            self._check(answer)
        try:
            document = json.loads(answer.data)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise CommandError(f"{self.url}: the answer is not JSON; is this a Kubernetes API server?")
        return document

    def _check(self, answer: Any) -> None:
        """Raise an error if the answer is not the one that was asked for."""
        if answer.status >= 300:
            raise self._refusal(answer.status, answer.data)

    def _refusal(self, status: int, body: bytes | str | None) -> CommandError:
        text = f"{self.url}: status {status}: {_message(body)}"
        if status == 404:
            return _NotThereError(text)
        if status == 410:
            return ExpiredError(text)
        if status == 429 or status >= 500:
            return ApiServerError(text)
        return CommandError(text + (_RIGHTS if status in (401, 403) else ""))

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Report a failed connection, or a refusal that the client raises, as one line.

        Some releases of the client raise it when the answer is read as it is; others leave the status to the caller.
        """
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except ApiException as error:
            if error.status:
                raise self._refusal(error.status, error.body) from None
            raise ApiServerError(f"{self.url}: {error.reason}") from None
        except (HTTPError, OSError) as error:
            raise ApiServerError(f"{self.url}: {getattr(error, 'reason', None) or error}") from None


_RIGHTS = " (it needs to list and watch pods, and to get nodes, jobs, JobSets and Volcano jobs)"


class _NotThereError(CommandError):
    """The API server has no object of this name."""


_RAW: dict[str, Any] = {"_preload_content": False, "_request_timeout": (CONNECT_SECONDS, READ_SECONDS)}
"""Answers as they are sent: reading them into the client's classes costs time, and refuses fields of newer servers."""


def _changes(pieces: Iterator[bytes], url: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the changes of an answer to a watch, which has one JSON object a line."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if not line.strip():
                continue
            try:
                change = json.loads(line)
                kind, document = str(change["type"]), dict(change["object"])
            except (ValueError, KeyError, TypeError):
                raise ApiServerError(f"{url}: a change of a pod is not JSON") from None
            if kind == "ERROR":
                error = ExpiredError if document.get("code") == 410 else ApiServerError
                raise error(f"{url}: {document.get('message', 'the watch failed')}")
            yield kind, document


def _inside_a_pod() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ


def _message(content: bytes | str | None) -> str:
    """Return the message of a Status of the API, or the beginning of what came instead."""
    text = content.decode(errors="replace") if isinstance(content, bytes) else content or ""
    try:
        message = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        message = text
    return " ".join(str(message).split())[:200]

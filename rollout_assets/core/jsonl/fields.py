"""The fields of a row that some rule reads: the one list of them.

A scan decodes these and skips (while still validating) all other values. A *projected row* is a plain dict that holds
just these fields, so that every rule works on projected rows and on whole rows alike. The fields are declared as types
because msgspec decodes typed dicts without building what they do not name.

Sources: records.md §2.1 to §2.5; compare.md §1.4, §1.5, §1.8 and decision 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

# A value of an unexpected shape must reach the rule that judges it, so each nested object is "this object or any
# other JSON value". msgspec does not allow `Any` in a union, hence the list.
NOT_AN_OBJECT = list[Any] | str | int | float | bool | None


class UsageFields(TypedDict, total=False):
    """`response.usage`."""

    input_tokens: Any
    output_tokens: Any


class ResponseFields(TypedDict, total=False):
    """`response`: the metadata, never the transcript."""

    metadata: Any
    model: Any
    usage: UsageFields | NOT_AN_OBJECT


class VerifierMetadataFields(TypedDict, total=False):
    """`verifier_metadata`: the dotted task key candidates (compare.md §1.5)."""

    task_id: Any
    task_name: Any
    instance_id: Any
    id: Any


class RequestFields(TypedDict, total=False):
    """`responses_create_params`: the prompt, for the input digest (compare.md, decision 11)."""

    input: Any


class RecordFields(TypedDict, total=False):
    """Top-level fields that the rules of records.md read (§2.1 to §2.5); a duplicate makes the row unreadable."""

    _ng_task_index: Any
    _ng_rollout_index: Any
    _ng_rollout_id: Any
    _ng_attempt_index: Any
    _ng_run_id: Any
    _ng_task_id: Any
    _ng_environment_server: Any
    _ng_result_type: Any
    _ng_failure_class: Any
    _ng_failure_terminal: Any
    _ng_failure_record: Any
    _ng_failure_message: Any
    _ng_failure_type: Any
    _ng_failure_http_status: Any
    _ng_failure_response_body: Any
    _ng_failure_stage: Any
    _ng_failure_partial_response: Any
    _ng_failure_response: Any
    _ng_failure_judge_error: Any
    _ng_failure_subcategory: Any
    _ng_failure_counts_as_zero: Any
    _ng_failure_id: Any
    _ng_failure_events: Any
    failure_kind: Any
    failure_reason: Any
    _ng_no_persist: Any
    _ng_dispatch_drained: Any
    _ng_omitted: Any
    _ng_omitted_rollout: Any
    _ng_unrouted_run_error: Any
    _ng_migrated_invalid_judge_response: Any
    reuse_cached_deliverable: Any
    invalid_judge_response: Any
    _ng_rejudged_failure_id: Any
    _ng_rejudge_operation_id: Any
    _ng_rejudge_admitted_at: Any
    _ng_rejudged_failure_observations: Any
    _ng_collected_grading_binding: Any
    reward: Any
    mask_sample: Any
    response: ResponseFields | NOT_AN_OBJECT
    elapsed_seconds: Any


class RowFields(RecordFields, total=False):
    """All fields that a scan decodes: those of the records rules and those that only a comparison reads."""

    task_name: Any
    task_id: Any
    verifier_metadata: VerifierMetadataFields | NOT_AN_OBJECT
    error: Any
    verifier_logs_dir: Any
    instance_id: Any
    problem_id: Any
    uuid: Any
    id: Any
    responses_create_params: RequestFields | NOT_AN_OBJECT


RECORD_KEYS: Final = frozenset(RecordFields.__annotations__)
ROW_KEYS: Final = frozenset(RowFields.__annotations__)

#: Fields that hold an index; a 64-bit column stores them.
INDEX_KEYS: Final = frozenset({"_ng_task_index", "_ng_rollout_index", "_ng_attempt_index"})

#: The part of an object to keep: `None` is all of it, else the keys to keep and the part of each value. A value that is
#: no object is kept as it is.
Wanted = Mapping[str, "Wanted"] | None


def _fields(declared: type, **nested: Wanted) -> Wanted:
    return {name: nested.get(name) for name in declared.__annotations__}


#: The part of a row that a scan keeps: `RowFields` in the form that code can walk.
ROW_FIELDS: Final[Wanted] = _fields(
    RowFields,
    response=_fields(ResponseFields, usage=_fields(UsageFields)),
    verifier_metadata=_fields(VerifierMetadataFields),
    responses_create_params=_fields(RequestFields),
)


def project(row: Mapping[str, Any], wanted: Wanted = ROW_FIELDS) -> dict[str, Any]:
    """The projected row of a whole row: what a scan of the same line decodes."""
    if wanted is None:
        return dict(row)
    return {
        key: project(value, wanted[key]) if isinstance(value, dict) and wanted[key] is not None else value
        for key, value in row.items()
        if key in wanted
    }

#!/usr/bin/env python3
"""decode_requests.py DIRECTORY: decodes the requests that otlp_requests.cpp has written with the official message classes.

The samples are compared with the values below, which are those of otlp_samples_test.hpp. The spans of the run are compared with the
lines of the JSONL exporter. In both, the protobuf and the JSON form of a request must be the same message.
"""
import base64
import datetime
import json
import pathlib
import sys
import unittest

from google.protobuf import json_format, unknown_fields
from google.protobuf.message import Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

DIRECTORY = pathlib.Path("build/otlp/requests")
MESSAGES = {"traces": ExportTraceServiceRequest, "metrics": ExportMetricsServiceRequest}
ID_KEYS = {"traceId", "spanId", "parentSpanId"}
TIME = 1795303700150049123
ID = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736")
SPAN_ID = bytes.fromhex("00f067aa0ba902b7")


def protobuf(name):
    message = MESSAGES[name.split(".")[1]]()
    message.ParseFromString((DIRECTORY / (name + ".pb")).read_bytes())
    return message


def with_base64_ids(value):
    """OTLP's JSON has hexadecimal ids, where the general mapping of protobuf has base64."""
    if isinstance(value, list):
        return [with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: base64.b64encode(bytes.fromhex(item)).decode() if key in ID_KEYS else with_base64_ids(item)
            for key, item in value.items()}


def from_json(name):
    text = (DIRECTORY / (name + ".json")).read_text(encoding="utf-8")
    return json_format.ParseDict(with_base64_ids(json.loads(text)), MESSAGES[name.split(".")[1]]())


def plain(value):
    """The Python value of an AnyValue."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    return getattr(value, kind)


def attributes(message):
    found = {entry.key: plain(entry.value) for entry in message.attributes}
    assert len(found) == len(message.attributes), "a key occurs twice"
    return found


def all_messages(message):
    yield message
    for field, value in message.ListFields():
        if field.message_type:
            for item in [value] if isinstance(value, Message) else value:
                yield from all_messages(item)


class Samples(unittest.TestCase):
    def check_resource(self, part):
        self.assertEqual(attributes(part.resource), {"service.name": "weather", "service.instance.id": "1"})
        self.assertEqual(part.schema_url, "https://opentelemetry.io/schemas/1.41.0")

    def test_traces(self):
        request = protobuf("samples.traces")
        self.assertEqual(len(request.resource_spans), 1)
        part = request.resource_spans[0]
        self.check_resource(part)
        self.assertEqual(part.scope_spans[0].scope.name, "cubepi.tracing")
        self.assertNotEqual(part.scope_spans[0].scope.version, "")
        full, bare = part.scope_spans[0].spans
        self.assertEqual((full.trace_id, full.span_id, full.parent_span_id), (ID, SPAN_ID, bytes(range(1, 9))))
        self.assertEqual((full.name, full.kind), ("chat ü", Span.SPAN_KIND_CLIENT))
        self.assertEqual((full.start_time_unix_nano, full.end_time_unix_nano), (TIME, TIME + 1000000007))
        self.assertEqual((full.status.code, full.status.message), (Status.STATUS_CODE_ERROR, "model error"))
        self.assertEqual(full.flags & 1, 1)
        self.assertEqual(attributes(full), {
            "text": "x" * 300, "yes": True, "no": False, "count": -38, "big": 2**63 - 1, "time": 0.25, "list": ["a", ""],
            "empty": "", "none": []})
        kinds = {entry.key: entry.value.WhichOneof("value") for entry in full.attributes}
        self.assertEqual(kinds["yes"], "bool_value")
        self.assertEqual(kinds["count"], "int_value")
        self.assertEqual(kinds["time"], "double_value")
        self.assertEqual([event.name for event in full.events], ["gen_ai.client.operation.exception", ""])
        self.assertEqual(full.events[0].time_unix_nano, TIME + 1000000007)
        self.assertEqual(attributes(full.events[0]), {"exception.type": "RateLimited"})
        self.assertEqual((full.links[0].trace_id, full.links[0].span_id, full.links[0].flags & 1), (ID, SPAN_ID, 0))
        self.assertEqual(attributes(full.links[0]), {"reason": "suspended"})
        self.assertEqual((bare.name, bare.parent_span_id, bare.kind), ("invoke_agent", b"", Span.SPAN_KIND_INTERNAL))
        self.assertEqual((bare.status.code, len(bare.attributes), len(bare.events), len(bare.links)), (0, 0, 0, 0))

    def test_metrics(self):
        part, = protobuf("samples.metrics").resource_metrics
        self.check_resource(part)
        duration, calls = part.scope_metrics[0].metrics
        self.assertEqual((duration.name, duration.description, duration.unit),
                         ("gen_ai.client.operation.duration", "Duration of an operation", "s"))
        self.assertEqual(duration.histogram.aggregation_temporality, AGGREGATION_TEMPORALITY_CUMULATIVE)
        point, = duration.histogram.data_points
        self.assertEqual((point.start_time_unix_nano, point.time_unix_nano), (TIME, TIME + 60 * 10**9))
        self.assertEqual((point.count, point.sum, point.min, point.max), (3, 4.5, 0.5, 3))
        self.assertEqual((list(point.bucket_counts), list(point.explicit_bounds)), ([1, 0, 2], [0.5, 1]))
        self.assertEqual(attributes(point), {"gen_ai.operation.name": "chat"})
        self.assertEqual((calls.name, calls.unit), ("cubepi.calls", "{call}"))
        self.assertEqual(calls.sum.aggregation_temporality, AGGREGATION_TEMPORALITY_CUMULATIVE)
        self.assertTrue(calls.sum.is_monotonic)
        point, = calls.sum.data_points
        self.assertEqual((point.as_double, point.time_unix_nano), (7, TIME + 60 * 10**9))
        self.assertEqual(attributes(point), {"otel.metric.overflow": True})


class Forms(unittest.TestCase):
    def test_protobuf_and_json_are_the_same_message(self):
        for name in ("samples.traces", "samples.metrics", "run.traces"):
            with self.subTest(name):
                self.assertEqual(protobuf(name), from_json(name))

    def test_metrics_of_the_run_have_the_same_points(self):
        """The two exports are of the same values, but not of the same moment."""
        def without_times(request):
            for message in all_messages(request):
                if hasattr(message, "time_unix_nano"):
                    message.time_unix_nano = 0
            return request
        self.assertEqual(without_times(protobuf("run.metrics")), without_times(from_json("run.metrics")))

    def test_the_official_classes_know_every_field(self):
        for name in ("samples.traces", "samples.metrics", "run.traces", "run.metrics"):
            for message in all_messages(protobuf(name)):
                self.assertEqual(len(unknown_fields.UnknownFieldSet(message)), 0, f"{name}: {type(message)}")


def nanoseconds(iso_time):
    """The times of the lines have microseconds."""
    moment = datetime.datetime.fromisoformat(iso_time.replace("Z", "+00:00"))
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 10**9 + moment.microsecond * 1000


class Run(unittest.TestCase):
    def setUp(self):
        self.request = protobuf("run.traces")
        self.spans = {span.span_id.hex(): span
                      for part in self.request.resource_spans[0].scope_spans for span in part.spans}
        lines = [json.loads(line) for file in (DIRECTORY / "jsonl").rglob("*.jsonl")
                 for line in file.read_text(encoding="utf-8").splitlines()]
        self.lines = {line["context"]["span_id"].removeprefix("0x"): line for line in lines}

    def test_has_the_spans_of_the_run(self):
        names = sorted(span.name for span in self.spans.values())
        self.assertEqual(names, ["chat faux-1", "chat faux-1", "cubepi.turn", "cubepi.turn", "execute_tool add",
                                 "execute_tool subtract", "invoke_agent"])

    def test_has_the_attributes_of_the_lines(self):
        self.assertEqual(set(self.spans), set(self.lines))
        compared = 0
        for span_id, line in self.lines.items():
            span = self.spans[span_id]
            with self.subTest(span.name):
                self.assertEqual(span.name, line["name"])
                self.assertEqual(attributes(span), line["attributes"])
                self.assertEqual(span.trace_id.hex(), line["context"]["trace_id"].removeprefix("0x"))
                self.assertEqual(span.parent_span_id.hex(), (line["parent_id"] or "").removeprefix("0x"))
                self.assertEqual(Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"), line["kind"].split(".")[-1])
                self.assertEqual(Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
                                 line["status"]["status_code"])
                self.assertEqual(span.start_time_unix_nano // 1000, nanoseconds(line["start_time"]) // 1000)
                self.assertEqual(span.end_time_unix_nano // 1000, nanoseconds(line["end_time"]) // 1000)
                self.assertEqual([event.name for event in span.events], [event["name"] for event in line["events"]])
                self.assertEqual([attributes(event) for event in span.events],
                                 [event["attributes"] for event in line["events"]])
                compared += len(span.attributes)
        self.assertGreater(compared, 50)
        print(f"\n{len(self.spans)} spans, {compared} attributes", file=sys.stderr)

    def test_has_the_resource_of_the_lines(self):
        resource = attributes(self.request.resource_spans[0].resource)
        self.assertEqual(resource["service.name"], "check-otlp")
        for line in self.lines.values():
            self.assertEqual(resource, line["resource"]["attributes"])

    def test_has_the_metrics_of_the_run(self):
        metrics = {metric.name: metric
                   for metric in protobuf("run.metrics").resource_metrics[0].scope_metrics[0].metrics}
        counts = {tuple(sorted(attributes(point).items())): point.count
                  for point in metrics["gen_ai.client.operation.duration"].histogram.data_points}
        by_operation = {}
        for labels, count in counts.items():
            operation = dict(labels)["gen_ai.operation.name"]
            by_operation[operation] = by_operation.get(operation, 0) + count
        self.assertEqual(by_operation, {"invoke_agent": 1, "chat": 2, "execute_tool": 2})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        DIRECTORY = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)

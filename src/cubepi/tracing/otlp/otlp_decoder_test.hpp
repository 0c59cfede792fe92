#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/json.hpp>

// A decoder of OTLP's protobuf messages that shares no code with the library: a table of the fields of opentelemetry-proto 1.x, and a
// reader that turns a message into the JSON mapping of OTLP.

namespace cubepi::otlp_test {

enum class Kind { text, hex, message, number, integer, boolean, time, real, flags, times, reals };

struct FieldType {
    const char* name;
    Kind kind;
    const char* message = nullptr;
    bool repeated = false;
};

inline const std::map<std::string, std::map<int, FieldType>>& schema() {
    using enum Kind;
    static const std::map<std::string, std::map<int, FieldType>> all = {
        {"TracesRequest", {{1, {"resourceSpans", message, "ResourceSpans", true}}}},
        {"ResourceSpans",
         {{1, {"resource", message, "Resource"}},
          {2, {"scopeSpans", message, "ScopeSpans", true}},
          {3, {"schemaUrl", text}}}},
        {"Resource", {{1, {"attributes", message, "KeyValue", true}}}},
        {"ScopeSpans",
         {{1, {"scope", message, "Scope"}},
          {2, {"spans", message, "Span", true}},
          {3, {"schemaUrl", text}}}},
        {"Scope", {{1, {"name", text}}, {2, {"version", text}}}},
        {"Span",
         {{1, {"traceId", hex}},
          {2, {"spanId", hex}},
          {4, {"parentSpanId", hex}},
          {5, {"name", text}},
          {6, {"kind", number}},
          {7, {"startTimeUnixNano", time}},
          {8, {"endTimeUnixNano", time}},
          {9, {"attributes", message, "KeyValue", true}},
          {11, {"events", message, "Event", true}},
          {13, {"links", message, "Link", true}},
          {15, {"status", message, "Status"}},
          {16, {"flags", flags}}}},
        {"Event",
         {{1, {"timeUnixNano", time}},
          {2, {"name", text}},
          {3, {"attributes", message, "KeyValue", true}}}},
        {"Link",
         {{1, {"traceId", hex}},
          {2, {"spanId", hex}},
          {4, {"attributes", message, "KeyValue", true}},
          {6, {"flags", flags}}}},
        {"Status", {{2, {"message", text}}, {3, {"code", number}}}},
        {"KeyValue", {{1, {"key", text}}, {2, {"value", message, "AnyValue"}}}},
        {"AnyValue",
         {{1, {"stringValue", text}},
          {2, {"boolValue", boolean}},
          {3, {"intValue", integer}},
          {4, {"doubleValue", real}},
          {5, {"arrayValue", message, "ArrayValue"}}}},
        {"ArrayValue", {{1, {"values", message, "AnyValue", true}}}},
        {"MetricsRequest", {{1, {"resourceMetrics", message, "ResourceMetrics", true}}}},
        {"ResourceMetrics",
         {{1, {"resource", message, "Resource"}},
          {2, {"scopeMetrics", message, "ScopeMetrics", true}},
          {3, {"schemaUrl", text}}}},
        {"ScopeMetrics",
         {{1, {"scope", message, "Scope"}},
          {2, {"metrics", message, "Metric", true}},
          {3, {"schemaUrl", text}}}},
        {"Metric",
         {{1, {"name", text}},
          {2, {"description", text}},
          {3, {"unit", text}},
          {7, {"sum", message, "Sum"}},
          {9, {"histogram", message, "Histogram"}}}},
        {"Sum",
         {{1, {"dataPoints", message, "NumberPoint", true}},
          {2, {"aggregationTemporality", number}},
          {3, {"isMonotonic", boolean}}}},
        {"NumberPoint",
         {{2, {"startTimeUnixNano", time}},
          {3, {"timeUnixNano", time}},
          {4, {"asDouble", real}},
          {7, {"attributes", message, "KeyValue", true}}}},
        {"Histogram",
         {{1, {"dataPoints", message, "HistogramPoint", true}},
          {2, {"aggregationTemporality", number}}}},
        {"HistogramPoint",
         {{2, {"startTimeUnixNano", time}},
          {3, {"timeUnixNano", time}},
          {4, {"count", time}},
          {5, {"sum", real}},
          {6, {"bucketCounts", times}},
          {7, {"explicitBounds", reals}},
          {9, {"attributes", message, "KeyValue", true}},
          {11, {"min", real}},
          {12, {"max", real}}}},
    };
    return all;
}

class Decoder {
public:
    explicit Decoder(std::string_view bytes) : rest_(bytes) {}

    JsonObject message(const std::string& type) {
        JsonObject out;
        while (!rest_.empty()) field(out, type);
        return out;
    }

private:
    void field(JsonObject& out, const std::string& type) {
        const std::uint64_t tag = varint();
        const FieldType& entry = schema().at(type).at(static_cast<int>(tag >> 3U));
        Json value = decode(entry, static_cast<int>(tag & 7U));
        if (entry.repeated) {
            if (!out.contains(entry.name)) out[entry.name] = JsonArray();
            out[entry.name].as_array().push_back(std::move(value));
            return;
        }
        if (out.contains(entry.name)) throw std::runtime_error(std::string("twice: ") + entry.name);
        out[entry.name] = std::move(value);
    }

    Json decode(const FieldType& entry, int wire) {
        switch (entry.kind) {
            case Kind::text: return Json(std::string(bytes(wire)));
            case Kind::hex: return Json(to_hex(bytes(wire)));
            case Kind::message: return Json(Decoder(bytes(wire)).message(entry.message));
            case Kind::number: expect(wire, 0); return Json(static_cast<std::int64_t>(varint()));
            case Kind::integer:
                expect(wire, 0);
                return Json(std::to_string(static_cast<std::int64_t>(varint())));
            case Kind::boolean: expect(wire, 0); return Json(varint() != 0);
            case Kind::time: expect(wire, 1); return Json(std::to_string(fixed(8)));
            case Kind::real: expect(wire, 1); return Json(std::bit_cast<double>(fixed(8)));
            case Kind::flags: expect(wire, 5); return Json(static_cast<std::int64_t>(fixed(4)));
            case Kind::times: return Json(Decoder(bytes(wire)).packed(false));
            case Kind::reals: return Json(Decoder(bytes(wire)).packed(true));
        }
        throw std::runtime_error("kind");
    }

    JsonArray packed(bool real) {
        JsonArray list;
        while (!rest_.empty()) {
            const std::uint64_t value = fixed(8);
            if (real) {
                list.push_back(Json(std::bit_cast<double>(value)));
            } else {
                list.push_back(Json(std::to_string(value)));
            }
        }
        return list;
    }

    static void expect(int wire, int wanted) {
        if (wire != wanted) throw std::runtime_error("wire type");
    }
    std::string_view take(std::size_t size) {
        if (size > rest_.size()) throw std::runtime_error("truncated");
        const std::string_view part = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return part;
    }
    std::string_view bytes(int wire) {
        expect(wire, 2);
        return take(varint());
    }
    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (int shift = 0;; shift += 7) {
            const auto byte = static_cast<unsigned char>(take(1)[0]);
            value |= std::uint64_t{byte & 0x7fU} << shift;
            if (byte < 0x80) return value;
        }
    }
    std::uint64_t fixed(std::size_t size) {
        std::uint64_t value = 0;
        std::memcpy(&value, take(size).data(), size);
        return value;
    }
    static std::string to_hex(std::string_view bytes) {
        std::string out;
        for (const char c : bytes) {
            out.push_back("0123456789abcdef"[static_cast<unsigned char>(c) >> 4U]);
            out.push_back("0123456789abcdef"[static_cast<unsigned char>(c) & 15U]);
        }
        return out;
    }

    std::string_view rest_;
};

}  // namespace cubepi::otlp_test

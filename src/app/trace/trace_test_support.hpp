#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "../command_line.hpp"
#include "source_tree.hpp"
#include "trace_views.hpp"

namespace cubepi::app {

/// The recorded traces of tests/conformance.
inline std::filesystem::path recorded_traces() {
    return std::filesystem::path(cubepi::testing::source_path("tests/conformance")) / "traces";
}

inline std::string file_text(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline Json file_json(const std::filesystem::path& path) {
    return boost::json::parse(file_text(path));
}

inline std::size_t occurrences(std::string_view text, std::string_view word) {
    std::size_t count = 0;
    for (std::size_t at = text.find(word); at != std::string_view::npos;
         at = text.find(word, at + word.size()))
        ++count;
    return count;
}

/// A line of a trace file. Ids are given without 0x; times are microseconds of a day of 2026.
struct TestSpan {
    std::string name = "span";
    std::string id = "01";
    std::string parent = {};
    int start = 0;
    int end = 1000;
    JsonObject attributes = {};
    std::string status = "UNSET";
    std::string trace = "0123456789abcdef0123456789abcdef";

    std::string line() const {
        const auto time = [](int microseconds) {
            std::ostringstream text;
            text << "2026-11-21T10:" << std::setfill('0') << std::setw(2)
                 << microseconds / 60'000'000 << ":" << std::setw(2)
                 << microseconds / 1'000'000 % 60 << "." << std::setw(6) << microseconds % 1'000'000
                 << "Z";
            return text.str();
        };
        JsonObject object;
        object["name"] = name;
        object["context"] =
            JsonObject{{"trace_id", "0x" + trace}, {"span_id", "0x" + id}, {"trace_state", "[]"}};
        object["kind"] = "SpanKind.INTERNAL";
        object["parent_id"] = parent.empty() ? Json() : Json("0x" + parent);
        object["start_time"] = time(start);
        object["end_time"] = time(end);
        object["status"] = JsonObject{{"status_code", status}};
        object["attributes"] = attributes;
        object["events"] = JsonArray();
        object["links"] = JsonArray();
        return boost::json::serialize(object) + "\n";
    }
};

inline TestSpan agent_span(std::string id, std::string parent = {}) {
    TestSpan span;
    span.name = "invoke_agent";
    span.id = std::move(id);
    span.parent = std::move(parent);
    span.attributes["gen_ai.operation.name"] = "invoke_agent";
    return span;
}

inline TestSpan chat_span(std::string id, std::string parent, const std::string& model) {
    TestSpan span;
    span.name = "chat " + model;
    span.id = std::move(id);
    span.parent = std::move(parent);
    span.attributes["gen_ai.operation.name"] = "chat";
    span.attributes["gen_ai.request.model"] = model;
    return span;
}

inline TestSpan tool_span(std::string id, std::string parent, const std::string& tool) {
    TestSpan span;
    span.name = "execute_tool " + tool;
    span.id = std::move(id);
    span.parent = std::move(parent);
    span.attributes["gen_ai.operation.name"] = "execute_tool";
    span.attributes["gen_ai.tool.name"] = tool;
    return span;
}

/// Runs `cubepi trace` on a directory of its own.
class TraceCommandTest : public ::testing::Test {
protected:
    TraceCommandTest() { arguments_.directory = temporary_.path().string(); }

    std::filesystem::path write(const std::string& name, std::string_view text) {
        const std::filesystem::path path = temporary_.path() / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }
    int show(TraceArguments::What what) {
        arguments_.what = what;
        out_.str({});
        err_.str({});
        return show_traces(arguments_, screen_, out_, err_);
    }
    std::string out() const { return out_.str(); }
    std::string err() const { return err_.str(); }
    std::vector<std::string> lines() const {
        std::vector<std::string> all;
        std::istringstream text(out_.str());
        for (std::string line; std::getline(text, line);) all.push_back(line);
        return all;
    }

    ScopedTestDirectory temporary_;
    TraceArguments arguments_;
    TraceScreen screen_;
    std::ostringstream out_;
    std::ostringstream err_;
};

}  // namespace cubepi::app

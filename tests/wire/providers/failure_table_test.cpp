#include <climits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/transcript.hpp>

#include "failure_scene.hpp"

// Every failure of a model call, at every point of its answer, over a socket, for every wire format: the error, whether the call
// was retried (D15), which content is stored (D9, D34), and that the conversation can continue (D1).

namespace cubepi::wire {
namespace {

constexpr Phase at_once = Phase::before_headers;
constexpr const char* gone = "ProviderUnavailable";
constexpr Row rows[] = {
    {Kind::no_name, "NoName", at_once, at_once, ErrorCode::dns, gone},
    {Kind::refused, "Refused", at_once, at_once, ErrorCode::connect, gone, true},
    {Kind::reset, "Reset", at_once, Phase::at_end, ErrorCode::disconnected, gone, true},
    {Kind::close, "Close", at_once, Phase::at_end, ErrorCode::disconnected, gone, true},
    {Kind::clean_end, "CleanEnd", Phase::after_headers, Phase::at_end, ErrorCode::disconnected,
     gone, true},
    {Kind::not_http, "NotHttp", at_once, at_once, ErrorCode::protocol, gone},
    {Kind::status, "401", at_once, at_once, ErrorCode::auth, "ProviderAuthFailed", false, 401},
    {Kind::status, "400", at_once, at_once, ErrorCode::bad_request, "ProviderBadRequest", false,
     400},
    {Kind::status, "404", at_once, at_once, ErrorCode::model_not_found, "ModelNotFound", false,
     404},
    {Kind::status, "408", at_once, at_once, ErrorCode::unavailable, gone, true, 408},
    {Kind::status, "429", at_once, at_once, ErrorCode::rate_limited, "RateLimited", true, 429},
    {Kind::status, "500", at_once, at_once, ErrorCode::unavailable, gone, true, 500},
    {Kind::status, "529", at_once, at_once, ErrorCode::unavailable, gone, true, 529},
    {Kind::error_body, "ErrorBody", Phase::after_headers, Phase::after_headers,
     ErrorCode::model_not_found, "ModelNotFound"},
    {Kind::overload_event, "OverloadEvent", Phase::after_headers, Phase::at_end,
     ErrorCode::unavailable, gone, true},
    {Kind::refusal_event, "RefusalEvent", Phase::after_headers, Phase::at_end,
     ErrorCode::bad_request, "ProviderBadRequest"},
    {Kind::not_json, "NotJson", Phase::after_headers, Phase::at_end, ErrorCode::protocol, gone},
    {Kind::cut_json, "CutJson", Phase::after_headers, Phase::at_end, ErrorCode::protocol, gone},
    {Kind::connect_timeout, "ConnectTimeout", at_once, at_once, ErrorCode::timeout, gone, true},
    {Kind::first_byte_timeout, "FirstByteTimeout", at_once, at_once, ErrorCode::timeout, gone},
    {Kind::idle_timeout, "IdleTimeout", Phase::after_headers, Phase::at_end, ErrorCode::timeout,
     gone},
    {Kind::total_timeout, "TotalTimeout", at_once, Phase::at_end, ErrorCode::timeout, gone},
    {Kind::abort, "Abort", at_once, Phase::at_end, ErrorCode::cancelled, ""},
};

std::vector<Cell> all_cells() {
    std::vector<Cell> cells;
    for (const Format format : all_formats) {
        for (const Phase phase : all_phases) {
            for (const Row& row : rows) {
                if (row.first <= phase && phase <= row.last)
                    cells.push_back(Cell{format, phase, &row});
            }
        }
    }
    return cells;
}

std::string cell_name(const ::testing::TestParamInfo<Cell>& info) {
    const Cell& cell = info.param;
    return std::string(name_of(cell.format)) + "_" + name_of(cell.phase) + "_" + cell.row->name;
}

/// Checks the announced retries, each with the reason in the table.
void expect_retries(const Cell& cell, const Scene& scene, std::size_t count) {
    ASSERT_EQ(scene.notices.size(), count);
    for (const Notice& notice : scene.notices) {
        EXPECT_EQ(notice.code, "retry") << notice.text;
        if (cell.row->status != 0) {
            EXPECT_EQ(notice.details.at("status_code"), Json(cell.row->status));
        }
        if (cell.row->status == 429) {
            EXPECT_EQ(notice.details.at("delay_ms"), Json(7000));
        }
    }
}

void expect_error(const Cell& cell, const RunResult& result, const AssistantMessage& answer) {
    const std::string text(std::string_view(answer.error_message));
    EXPECT_EQ(result.error().code(), cell.row->code) << text;
    EXPECT_EQ(text.find(table_key), std::string::npos) << text;
    if (cell.row->kind == Kind::abort) {
        EXPECT_EQ(result.outcome, RunOutcome::aborted);
        EXPECT_EQ(answer.stop_reason, "aborted");
        EXPECT_EQ(text, "Request was aborted");
        return;
    }
    EXPECT_EQ(result.outcome, RunOutcome::failed);
    EXPECT_EQ(answer.stop_reason, "error");
    ASSERT_TRUE(answer.error) << text;
    EXPECT_EQ(answer.error->code, cell.row->code) << text;
    // An answer of Anthropic's that ends early is stored without a type, as CubePi does.
    const bool untyped = cell.format == Format::anthropic && cell.row->kind == Kind::clean_end;
    EXPECT_EQ(answer.error->type, untyped ? "" : cell.row->type) << text;
    if (cell.row->status != 0) {
        EXPECT_EQ(answer.error->status_code, cell.row->status);
    }
    if (cell.row->status == 429) {
        EXPECT_EQ(answer.error->retry_after, 7.0);
    }
    if (cell.clock()) {
        EXPECT_NE(text.find(cell.clock()), std::string::npos) << text;
    }
    EXPECT_EQ(text.find("after 2 retries") != std::string::npos, cell.retried()) << text;
}

/// Checks that shown content is stored; a call whose arguments were incomplete is not, if the user ended the answer.
void expect_content(const Cell& cell, const AssistantMessage& answer) {
    EXPECT_EQ(answer.text(), cell.shown() ? partial_text : "");
    const bool aborted = cell.row->kind == Kind::abort;
    const bool closed = cell.phase == Phase::at_end && ends_calls(cell.format);
    const bool begun = cell.phase >= Phase::mid_arguments;
    const std::vector<const ToolCall*> calls = answer.tool_calls();
    ASSERT_EQ(calls.size(), begun && (closed || !aborted) ? 1u : 0u);
    if (calls.empty()) return;
    EXPECT_EQ(calls[0]->name, "add");
    EXPECT_EQ(calls[0]->arguments, closed ? JsonObject({{"a", 1}}) : JsonObject());
    if (!closed) {
        EXPECT_EQ(calls[0]->extra.get().at("raw_arguments"), Json("{\"a\":"));
    }
}

void expect_continues(const Cell& cell, Scene& scene) {
    const std::size_t before = scene.bodies().size();
    const RunResult next = scene.next();
    EXPECT_TRUE(next) << scene.agent_error();
    EXPECT_EQ(next.text(), whole_text);
    EXPECT_EQ(scene.agent_error(), "");
    EXPECT_TRUE(is_legal_transcript(scene.messages()));
    const std::vector<std::string> bodies = scene.bodies();
    ASSERT_EQ(bodies.size(), before + 1);
    expect_legal_request(cell.format, bodies.back());
    EXPECT_NE(bodies.back().find("Continue."), std::string::npos);
}

class FailureTable : public ::testing::TestWithParam<Cell> {};

TEST_P(FailureTable, D15_D9_D34_D1_EndsAsDefinedAndContinues) {
    const Cell cell = GetParam();
    // A complete answer is followed by a second call, which must not fail.
    Scene scene(cell, cell.whole() ? 1 : INT_MAX);
    const RunResult result = scene.first();
    if (cell.whole()) {
        EXPECT_TRUE(result) << scene.agent_error();
        EXPECT_EQ(scene.tool_runs, 1);
        EXPECT_EQ(scene.bodies().size(), 2u);
        EXPECT_TRUE(scene.notices.empty());
    } else {
        EXPECT_EQ(scene.tool_runs, 0);
        const std::size_t attempts = cell.retried() ? 3 : 1;
        EXPECT_EQ(scene.bodies().size(), cell.reaches_server() ? attempts : 0);
        expect_retries(cell, scene, attempts - 1);
        expect_error(cell, result, scene.last_answer());
        expect_content(cell, scene.last_answer());
    }
    expect_continues(cell, scene);
}

INSTANTIATE_TEST_SUITE_P(Wire, FailureTable, ::testing::ValuesIn(all_cells()), cell_name);

class FailureOnce : public ::testing::TestWithParam<Cell> {};

TEST_P(FailureOnce, D15_ARetryReturnsTheAnswer) {
    const Cell cell = GetParam();
    Scene scene(cell, 1);
    const RunResult result = scene.first();
    EXPECT_TRUE(result) << scene.agent_error();
    EXPECT_EQ(result.text(), whole_text);
    ASSERT_EQ(scene.messages().size(), 2u);
    EXPECT_EQ(scene.last_answer().content.size(), 1u);
    expect_retries(cell, scene, 1);
    const std::vector<std::string> bodies = scene.bodies();
    ASSERT_EQ(bodies.size(), cell.reaches_server() ? 2u : 1u);
    EXPECT_EQ(bodies.front(), bodies.back());
    expect_continues(cell, scene);
}

std::vector<Cell> retried_cells() {
    std::vector<Cell> cells = all_cells();
    // A name that is resolved nevertheless would race with the clock.
    std::erase_if(cells, [](const Cell& cell) {
        return !cell.retried() || cell.row->kind == Kind::connect_timeout;
    });
    return cells;
}

INSTANTIATE_TEST_SUITE_P(Wire, FailureOnce, ::testing::ValuesIn(retried_cells()), cell_name);

}  // namespace
}  // namespace cubepi::wire

#include "wire_cases.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stop_token>
#include <utility>

#include <cubepi/core/message_json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/provider/base_provider.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "source_tree.hpp"

namespace cubepi::wire {

namespace {

namespace fs = std::filesystem;
using testing::MemoryResponse;

/// Removes the value at a JSON pointer. Returns true if the pointer names everything.
bool remove(Json& from, std::string_view pointer) {
    if (pointer.empty()) return true;
    const std::size_t slash = pointer.rfind('/');
    boost::json::error_code error;
    Json* parent = from.find_pointer(pointer.substr(0, slash), error);
    const std::string key(pointer.substr(slash + 1));
    if (!parent) return false;
    if (parent->is_object()) parent->get_object().erase(key);
    if (parent->is_array()) {
        JsonArray& array = parent->get_array();
        const auto index = static_cast<std::size_t>(std::stoul(key));
        if (index < array.size()) array.erase(array.begin() + static_cast<std::ptrdiff_t>(index));
    }
    return false;
}

/// Tool call arguments are compared as JSON.
void parse_arguments_in(Json& value) {
    if (value.is_array()) {
        for (Json& item : value.get_array()) parse_arguments_in(item);
    } else if (value.is_object()) {
        for (auto& [key, item] : value.get_object()) {
            if (key == "arguments" && item.is_string()) {
                item = boost::json::parse(std::string(item.get_string()));
            } else {
                parse_arguments_in(item);
            }
        }
    }
}

Model model_of(const Json& wire_case) {
    Model model;
    model.id = text_of(wire_case, "model");
    const Json* given = member(wire_case.at("options"), "model");
    if (!given) return model;
    if (const Json* value = member(*given, "temperature"))
        model.temperature = value->to_number<double>();
    if (const Json* value = member(*given, "max_tokens"))
        model.max_tokens = value->to_number<std::int64_t>();
    if (const Json* value = member(*given, "context_window"))
        model.context_window = value->to_number<std::int64_t>();
    if (const Json* value = member(*given, "reasoning")) model.reasoning = value->as_bool();
    return model;
}

template <class E>
E enum_of(const std::string& name, std::initializer_list<E> values) {
    for (const E value : values) {
        if (to_string(value) == name) return value;
    }
    return *values.begin();
}

ReasoningControl reasoning_of(const Json& form) {
    ReasoningControl control;
    control.mode = enum_of(text_of(form, "mode"),
                           {ReasoningMode::off, ReasoningMode::automatic, ReasoningMode::on});
    control.effort = enum_of(text_of(form, "effort"),
                             {ReasoningEffort::medium, ReasoningEffort::minimal,
                              ReasoningEffort::low, ReasoningEffort::high, ReasoningEffort::max});
    control.summary = enum_of(text_of(form, "summary"),
                              {ReasoningSummary::none, ReasoningSummary::automatic,
                               ReasoningSummary::detailed, ReasoningSummary::summarized});
    return control;
}

ToolChoice tool_choice_of(const std::string& choice) {
    ToolChoice wanted;
    if (choice == "required") wanted.mode = ToolChoice::Mode::required;
    if (choice == "none") wanted.mode = ToolChoice::Mode::none;
    if (choice != "auto" && choice != "required" && choice != "none") {
        wanted.mode = ToolChoice::Mode::named;
        wanted.name = choice;
    }
    return wanted;
}

Task<std::optional<JsonObject>> with_members(JsonObject body, JsonObject members) {
    for (const auto& [key, value] : members) body[key] = value;
    std::optional<JsonObject> changed(std::move(body));
    co_return changed;
}

/// Each step moves to a new object first: a setter returns the object that it is called on.
StreamOptions stream_options_of(const Json& options) {
    StreamOptions made;
    if (const Json* reasoning = member(options, "reasoning"))
        made = StreamOptions(std::move(made)).reasoning(reasoning_of(*reasoning));
    const std::string choice = text_of(options, "tool_choice");
    if (!choice.empty()) made = StreamOptions(std::move(made)).tool_choice(tool_choice_of(choice));
    if (const Json* payload = member(options, "payload")) {
        auto hook = [members = payload->as_object()](JsonObject body, const Model&) {
            return with_members(std::move(body), members);
        };
        made = StreamOptions(std::move(made)).on_payload(std::move(hook));
    }
    return made;
}

std::shared_ptr<const ToolDefinitions> tools_of(const Json& wire_case) {
    ToolDefinitions tools;
    for (const Json& given : wire_case.at("tools").as_array()) {
        ToolDefinition tool;
        tool.name = text_of(given, "name");
        tool.description = text_of(given, "description");
        tool.parameters = std::make_shared<const Json>(given.at("parameters"));
        tools.push_back(std::move(tool));
    }
    return std::make_shared<const ToolDefinitions>(std::move(tools));
}

MemoryResponse response_of(const Json* shape, const std::string& body, std::size_t stride) {
    const Json none = JsonObject();
    const Json& given = shape ? *shape : none;
    const Json* status = member(given, "status");
    MemoryResponse made(status ? status->to_number<int>() : 200);
    if (!status) made = MemoryResponse(made).with_header("content-type", "text/event-stream");
    if (const Json* headers = member(given, "headers")) {
        for (const auto& [name, value] : headers->as_object()) {
            made =
                MemoryResponse(made).with_header(std::string(name), std::string(value.as_string()));
        }
    }
    made = MemoryResponse(made).with_piece(body);
    if (stride > 0) made = MemoryResponse(made).in_pieces_of(stride);
    if (member(given, "cut")) {
        made = MemoryResponse(made).with_failure(
            NetworkError(ErrorCode::disconnected, "endpoint", true, "broken off"));
    }
    return made;
}

struct Played {
    std::vector<HttpRequest> requests;
    std::vector<StreamEvent> events;
};

Task<std::vector<StreamEvent>> pull(MessageStream stream, std::stop_source stop, int abort_after) {
    std::vector<StreamEvent> events;
    for (;;) {
        if (static_cast<int>(events.size()) == abort_after) stop.request_stop();
        std::optional<StreamEvent> event = co_await stream.next();
        if (!event) break;
        if (event->type != StreamEventType::notice) events.push_back(std::move(*event));
    }
    co_return events;
}

Played play(const Json& wire_case, const ProviderFactory& make, std::size_t stride) {
    std::vector<MemoryResponse> answers;
    if (const Json* several = member(wire_case, "answers")) {
        for (const Json& one : several->as_array())
            answers.push_back(response_of(&one, text_of(one, "body"), stride));
    } else {
        // A request is made three times at most.
        const std::string body = text_of(wire_case, "response_sse");
        for (int i = 0; i < 3; ++i)
            answers.push_back(response_of(member(wire_case, "response"), body, stride));
    }
    auto clock = std::make_shared<testing::ManualClock>();
    auto transport = std::make_shared<testing::MemoryTransport>(std::move(answers), clock);
    auto runtime =
        std::make_shared<const Runtime>(Runtime().with_clock(clock).with_transport(transport));
    const Json* constructor = member(wire_case.at("options"), "constructor");
    std::shared_ptr<Provider> provider = make(constructor ? *constructor : Json(JsonObject()));
    MessageList messages;
    for (const Json& message : wire_case.at("messages").as_array())
        messages.push_back(message_from_json(message));
    std::stop_source stop;
    StreamOptions options =
        stream_options_of(wire_case.at("options")).runtime(runtime).stop_token(stop.get_token());
    MessageStream stream = BoundModel(std::move(provider), model_of(wire_case))
                               .stream(std::move(messages), text_of(wire_case, "system_prompt"),
                                       tools_of(wire_case), std::move(options));
    const Json* abort_after = member(wire_case.at("options"), "abort_after_events");
    Played played;
    played.events = testing::run_advancing(
        *clock, pull(std::move(stream), stop, abort_after ? abort_after->to_number<int>() : -1));
    played.requests = transport->requests();
    EXPECT_EQ(transport->open_exchanges(), 0u);
    return played;
}

std::vector<std::string> defects(const Json& wire_case) {
    std::vector<std::string> paths;
    if (const Json* given = member(wire_case, "defect_paths")) {
        for (const Json& path : given->as_array()) paths.emplace_back(path.as_string());
    }
    return paths;
}

/// Compares numbers by value, as the cases require.
bool same(const Json& a, const Json& b) {
    if (a.is_number() && b.is_number()) return a.to_number<double>() == b.to_number<double>();
    if (a.is_array() && b.is_array()) {
        const JsonArray& x = a.get_array();
        const JsonArray& y = b.get_array();
        return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), same);
    }
    if (a.is_object() && b.is_object()) {
        if (a.get_object().size() != b.get_object().size()) return false;
        for (const auto& [key, value] : a.get_object()) {
            const Json* other = b.get_object().if_contains(key);
            if (!other || !same(value, *other)) return false;
        }
        return true;
    }
    return a == b;
}

void compare_request(const Json& wire_case, const HttpRequest& request, bool is_request_case) {
    const Json& expected = wire_case.at("expect_request");
    EXPECT_EQ(request.method, text_of(expected, "method"));
    EXPECT_EQ(request.url, "http://endpoint" + text_of(expected, "path"));
    for (const auto& [name, value] : expected.at("headers").as_object()) {
        if (name != "accept") {
            EXPECT_EQ(request.headers.get(name), std::string_view(value.as_string())) << name;
        }
    }
    Json wanted = expected.at("body");
    Json sent = boost::json::parse(request.body);
    parse_arguments_in(wanted);
    parse_arguments_in(sent);
    if (is_request_case) {
        for (const std::string& path : defects(wire_case)) {
            if (remove(wanted, path) || remove(sent, path)) return;
        }
    }
    EXPECT_TRUE(same(sent, wanted)) << "sent     " << boost::json::serialize(sent) << "\nexpected "
                                    << boost::json::serialize(wanted);
}

void compare_message(const Json& wire_case, const AssistantMessage& message) {
    Json wanted = wire_case.at("expect_message");
    Json got = to_json(message);
    for (const std::string& path : defects(wire_case)) {
        if (path.starts_with('#')) continue;
        if (remove(wanted, path) || remove(got, path)) return;
    }
    for (const auto& [key, value] : wanted.as_object()) {
        const Json* ours = got.get_object().if_contains(key);
        if (key == "timestamp") continue;
        if (key == "error_message" && value != Json("Request was aborted")) {
            EXPECT_EQ(value.is_null(), !ours || ours->is_null()) << boost::json::serialize(got);
        } else if (key == "usage") {
            for (const auto& [name, count] : value.as_object()) {
                const Json* reported = ours ? member(*ours, name) : nullptr;
                EXPECT_EQ(reported ? reported->to_number<std::int64_t>() : 0,
                          count.to_number<std::int64_t>())
                    << name;
            }
        } else if (key == "content") {
            ASSERT_TRUE(ours);
            ASSERT_EQ(ours->as_array().size(), value.as_array().size())
                << boost::json::serialize(*ours);
            for (std::size_t i = 0; i < value.as_array().size(); ++i) {
                for (const auto& [name, part] : value.as_array()[i].as_object()) {
                    const Json* mine = member(ours->as_array()[i], name);
                    EXPECT_TRUE(mine && same(*mine, part)) << boost::json::serialize(*ours);
                }
            }
        } else {
            EXPECT_TRUE(ours ? same(*ours, value) : value.is_null())
                << key << " " << boost::json::serialize(got);
        }
    }
}

void compare_events(const Json& wire_case, const std::vector<StreamEvent>& events) {
    for (const std::string& path : defects(wire_case)) {
        if (path.empty() || path == "#events") return;
    }
    JsonArray types;
    for (const StreamEvent& event : events) types.push_back(Json(to_string(event.type)));
    EXPECT_EQ(Json(types), wire_case.at("expect_events"));
    const Json* details = member(wire_case, "expect_event_details");
    if (!details || details->as_array().size() != events.size()) return;
    for (std::size_t i = 0; i < events.size(); ++i) {
        const Json& wanted = details->as_array()[i];
        if (const Json* index = member(wanted, "content_index")) {
            EXPECT_EQ(events[i].content_index, index->to_number<int>());
        }
        if (const Json* delta = member(wanted, "delta")) {
            EXPECT_EQ(events[i].delta, std::string_view(delta->as_string()));
        }
        const Json* arguments = member(wanted, "arguments");
        const bool cut = !defects(wire_case).empty();
        if (arguments && !cut) {
            const AssistantMessage partial = events[i].partial.get();
            const auto& call = std::get<ToolCall>(
                partial.content[static_cast<std::size_t>(events[i].content_index)]);
            EXPECT_TRUE(same(Json(call.arguments), *arguments));
        }
    }
}

}  // namespace

Json read_case(const std::string& name) {
    std::ifstream file(cubepi::testing::source_path("tests/conformance/wire/") + name);
    std::stringstream text;
    text << file.rdbuf();
    return boost::json::parse(text.str());
}

CaseAnswer answer_of_case(const Json& wire_case, const ProviderFactory& make) {
    CaseAnswer answer;
    std::shared_ptr<Provider> provider;
    const auto watched = [&](const Json& constructor) {
        provider = make(constructor);
        auto& base = dynamic_cast<BaseProvider&>(*provider);
        base.subscribe_response([&answer](const ProviderOutcome& outcome, const ProviderCall&) {
            answer.body = outcome.body();
        });
        return provider;
    };
    answer.message = play(wire_case, watched, 0).events.back().partial.get();
    return answer;
}

std::vector<std::string> cases_of(const std::string& prefix) {
    std::vector<std::string> names;
    for (const char* directory : {"", "responses/"}) {
        for (const auto& entry : fs::directory_iterator(
                 cubepi::testing::source_path("tests/conformance/wire/") + directory)) {
            const std::string name = entry.path().filename().string();
            if (name.starts_with(prefix) && name.ends_with(".json"))
                names.push_back(directory + name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

const Json* member(const Json& object, std::string_view key) {
    return object.is_object() ? object.get_object().if_contains(key) : nullptr;
}

std::string text_of(const Json& object, std::string_view key) {
    const Json* value = member(object, key);
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::string case_test_name(const ::testing::TestParamInfo<std::string>& info) {
    std::string name = info.param.substr(0, info.param.size() - 5);
    for (char& c : name) {
        if (c == '-' || c == '/') c = '_';
    }
    return name;
}

void expect_case_holds(const std::string& name, const ProviderFactory& make) {
    const Json wire_case = read_case(name);
    const bool is_request_case = !name.starts_with("responses/");
    for (const std::size_t stride : {0u, 1u, 2u, 3u, 7u, 61u, 250u}) {
        SCOPED_TRACE("pieces of " + std::to_string(stride));
        const Played played = play(wire_case, make, stride);
        ASSERT_FALSE(played.requests.empty());
        if (member(wire_case, "expect_request")) {
            compare_request(wire_case, played.requests[0], is_request_case);
        }
        const Json* made = member(wire_case, "requests_made");
        EXPECT_EQ(played.requests.size(), made ? made->to_number<std::size_t>() : 1u);
        ASSERT_FALSE(played.events.empty());
        if (is_request_case) continue;
        compare_message(wire_case, played.events.back().partial.get());
        compare_events(wire_case, played.events);
    }
}

}  // namespace cubepi::wire

// Tools whose parameters are only known at run time: a JSON Schema and a callable.
#include <iostream>
#include <cubepi/cubepi.hpp>
#include <cubepi/schema/parse_json.hpp>
using namespace cubepi;

// As read from a file or a plugin.
constexpr std::string_view search_schema = R"({
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 2}},
    "required": ["query"]
})";

// The arguments are valid and have their defaults. It may be a coroutine, and returns text, JSON, content or a result.
Task<Json> search(JsonObject arguments, ToolContext& context) {
    JsonArray found;
    for (std::int64_t i = 0; i < arguments.at("limit").as_int64(); ++i) {
        co_await context.update(i);
        found.push_back(Json("page " + std::to_string(i)));
    }
    co_return Json(std::move(found));
}

// It blocks, so it runs on a worker thread; report() may be called from any thread.
std::string index_files(const JsonObject& arguments, ToolContext& context) {
    for (int done = 1; done <= 3; ++done) context.report(done);
    return "indexed " + std::string(arguments.at("query").as_string());
}

int main() {
    FauxProvider faux;
    faux.set_responses({
        faux_assistant_message(faux_tool_call("search", {{"query", "cats"}})),
        faux_assistant_message(faux_tool_call("index", {{"query", "cats"}})),
        "Done.",
    });
    Agent agent(AgentOptions{
        .model = faux.model(),
        .tools = {tool("search", "Searches pages.", parse_json(search_schema), search),
                  blocking_tool("index", "Indexes pages.", parse_json(search_schema), index_files)},
    });
    int updates = 0;
    agent.subscribe([&](const AgentEvent& event) {
        if (auto* update = event.get_if<ToolExecutionUpdateEvent>()) {
            std::cout << update->tool_name.str() << ": " << update->partial_result << '\n';
            ++updates;
        } else if (auto* end = event.get_if<ToolExecutionEndEvent>()) {
            std::cout << end->tool_name.str() << " returned " << end->result.text() << '\n';
        }
    });
    return run(agent.prompt("Search")) && updates == 5 ? 0 : 1;
}

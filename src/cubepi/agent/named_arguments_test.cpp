#include <cubepi/agent/named_arguments.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent_test_support.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

enum class Unit : std::uint8_t { celsius, fahrenheit };
struct Place {
    std::string city;
    std::string country = "NO";
};
struct Node {
    std::string name;
    std::vector<Node> children;
};

std::string forecast(std::string city, int days) { return city + " " + std::to_string(days); }

TEST(NamedArguments, AreTheSchemaOfTheTool) {
    const AgentTool made = tool<"place", "days", "unit", "tags">(
        "forecast", "d",
        [](Place, std::optional<int>, Unit, std::vector<std::string>) { return "sunny"; });
    EXPECT_EQ(made.parameters.source(), parse_json(R"({
        "type": "object",
        "properties": {
            "place": {"type": "object", "required": ["city"], "properties": {
                "city": {"type": "string"}, "country": {"type": "string", "default": "NO"}}},
            "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["place", "unit", "tags"]})"));
}

TEST(NamedArguments, ReachTheCallableInTheirOrder) {
    EXPECT_EQ(text_of(result_of(tool<"city", "days">("t", "", forecast),
                                {{"days", 2}, {"city", "Oslo"}})),
              "Oslo 2");
    const auto all = [](Place place, std::optional<int> days, Unit unit, Json extra) {
        return place.city + place.country + std::to_string(days.value_or(-1)) +
               std::string(enum_name(unit)) + boost::json::serialize(extra);
    };
    EXPECT_EQ(text_of(result_of(
                  tool<"place", "days", "unit", "extra">("t", "", all),
                  {{"place", {{"city", "Rome"}}}, {"unit", "fahrenheit"}, {"extra", {{"a", 1}}}})),
              R"(RomeNO-1fahrenheit{"a":1})");
}

TEST(NamedArguments, MayBeNone) {
    const AgentTool clock = tool("now", "The time.", [] { return "noon"; });
    EXPECT_EQ(clock.parameters.source(), AgentTool::no_parameters().source());
    EXPECT_EQ(text_of(result_of(clock, {})), "noon");
}

TEST(NamedArguments, OfATypeThatContainsItself) {
    const auto count = [](Node node) { return std::to_string(node.children.size()); };
    const JsonObject leaf{{"name", "b"}, {"children", JsonArray()}};
    EXPECT_EQ(text_of(result_of(tool<"node">("t", "", count),
                                {{"node", {{"name", "a"}, {"children", JsonArray{leaf, leaf}}}}})),
              "2");
}

TEST(NamedArguments, HaveConstraintsDefaultsAndDescriptions) {
    AgentTool made = tool<"city", "days">("t", "", forecast)
                         .describe("city", "City name")
                         .constrain("days", Constraints().minimum(1).default_value(3));
    EXPECT_EQ(text_of(result_of(made, {{"city", "Oslo"}})), "Oslo 3");
    const ToolResultMessage result = result_of(made, {{"city", "Oslo"}, {"days", 0}});
    EXPECT_TRUE(result.is_error);
    EXPECT_NE(text_of(result).find("days"), std::string::npos);
}

TEST(NamedArguments, ThatAreMissingOrOfAnotherTypeAreSentBack) {
    EXPECT_TRUE(result_of(tool<"city", "days">("t", "", forecast), {{"city", "Oslo"}}).is_error);
    // The schema of an int has no bounds; its type does.
    const ToolResultMessage result = result_of(tool<"city", "days">("t", "", forecast),
                                               {{"city", "Oslo"}, {"days", 3000000000}});
    EXPECT_TRUE(result.is_error);
    EXPECT_NE(text_of(result).find("days"), std::string::npos) << text_of(result);
}

TEST(NamedArguments, OfACoroutineThatTakesTheContext) {
    const auto coroutine = [](std::string city, ToolContext& context) -> Task<std::string> {
        co_await context.update("half");
        co_return city + " " + context.tool_call_id();
    };
    EXPECT_EQ(text_of(result_of(tool<"city">("t", "", coroutine), {{"city", "Oslo"}})).substr(0, 5),
              "Oslo ");
}

TEST(NamedArguments, MayBeMovedIntoTheCallable) {
    auto calls = std::make_unique<int>(0);
    auto count = [calls = std::move(calls)](std::vector<std::string> names) mutable {
        *calls += static_cast<int>(names.size());
        return std::to_string(*calls);
    };
    EXPECT_EQ(text_of(result_of(tool<"names">("t", "", std::move(count)),
                                {{"names", JsonArray{"a", "b"}}})),
              "2");
}

TEST(NamedArguments, OfABlockingCallable) {
    const std::thread::id here = std::this_thread::get_id();
    const auto block = [here](std::string city, ToolContext&) {
        return city + (std::this_thread::get_id() == here ? " here" : " elsewhere");
    };
    EXPECT_EQ(text_of(result_of(blocking_tool<"city">("t", "", block), {{"city", "Oslo"}})),
              "Oslo elsewhere");
}

TEST(AgentOfAModel, HasTheDefaultsOfAllOtherOptions) {
    FauxProvider faux;
    faux.set_responses({"hello"});
    Agent agent(faux.model());
    EXPECT_EQ(run(agent.prompt("Hi")).text(), "hello");
    EXPECT_TRUE(agent.state().tools.empty());
}

}  // namespace
}  // namespace cubepi

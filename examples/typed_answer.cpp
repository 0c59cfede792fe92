// A typed answer from an agent with tools: the value is shown while it is streamed, and is valid at the end.
#include <iostream>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

struct Stop {
    int day;
    std::string city;
    static void describe_fields(FieldNotes& fields) {
        fields.constrain("day", Constraints().minimum(1));
    }
};
struct Plan {
    std::string title;
    std::vector<Stop> stops;
};

int main() {
    // A model without a network. It calls the tool, answers with an invalid day, and corrects itself.
    FauxProvider faux;
    const JsonObject day_0{{"day", 0}, {"city", "Rome"}};
    const JsonObject day_1{{"day", 1}, {"city", "Rome"}};
    JsonObject bad{{"title", "Italy"}};
    bad["stops"] = JsonArray(1, day_0);
    JsonObject good{{"title", "Italy"}};
    good["stops"] = JsonArray(1, day_1);
    faux.set_responses({
        faux_assistant_message(faux_tool_call("trains", {{"from", "Oslo"}, {"to", "Rome"}})),
        faux_assistant_message(faux_tool_call("structured_output", bad)),
        faux_assistant_message(faux_tool_call("structured_output", good)),
    });
    Agent agent(AgentOptions{
        .model = faux.model(),
        .tools = {tool<"from", "to">(
            "trains", "Finds trains.",
            [](std::string from, std::string to) { return from + " - " + to + ": 08:00"; })},
    });

    PartialAnswer<Plan> partial;
    agent.subscribe([&](const AgentEvent& event) {
        if (const Plan* plan = partial.update(event))
            std::cout << plan->title << ", " << plan->stops.size() << " stops so far\n";
    });
    TypedResult<Plan> plan = run(agent.prompt<Plan>("Plan a trip to Italy."));
    if (!plan) {
        std::cerr << plan.error().what() << '\n';
        return 1;
    }
    for (const Stop& stop : plan->stops)
        std::cout << "day " << stop.day << ": " << stop.city << '\n';
    return plan->stops.size() == 1 && plan->stops[0].city == "Rome" ? 0 : 1;
}

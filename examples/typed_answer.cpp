// A typed answer from an agent with tools: the value is shown while it is streamed, and is valid at the end.
#include <iostream>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

struct Stop {
    int day;
    std::string city;
};
struct Plan {
    std::string title;
    std::vector<Stop> stops;
};
struct TrainArgs {
    std::string from, to;
};

int main() {
    // A model without a network. Its first answer calls the tool, its second has a wrong type, its third is right.
    FauxProvider faux;
    const JsonObject first{{"day", 1}, {"city", "Rome"}};
    const JsonObject bad{{"title", "Italy"}, {"stops", "Rome"}};
    const JsonObject good{{"title", "Italy"}, {"stops", JsonArray{first}}};
    faux.set_responses({
        faux_assistant_message(faux_tool_call("trains", {{"from", "Oslo"}, {"to", "Rome"}})),
        faux_assistant_message(faux_tool_call("structured_output", bad)),
        faux_assistant_message(faux_tool_call("structured_output", good)),
    });
    Agent agent({
        .model = faux.model(),
        .tools = {tool<TrainArgs>("trains", "Finds trains.",
                                  [](TrainArgs args) { return args.from + " - " + args.to + ": 08:00"; })},
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
    for (const Stop& stop : plan->stops) std::cout << "day " << stop.day << ": " << stop.city << '\n';
    return plan->stops.size() == 1 && plan->stops[0].city == "Rome" ? 0 : 1;
}

// A typed answer of an agent with a tool. The model must correct an answer with a day before the first.
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

int main() {
    auto trains = [](std::string from, std::string to) { return from + " - " + to + ": 08:00"; };
    Agent agent(AgentOptions{.model = openai_model("gpt-5.1"),
                             .tools = {tool<"from", "to">("trains", "Finds trains.", trains)}});
    auto plan = run(agent.prompt<std::vector<Stop>>("Plan a trip to Italy."));
    for (const Stop& stop : *plan) std::cout << "day " << stop.day << ": " << stop.city << '\n';
}

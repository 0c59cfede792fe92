// A plugin for the turn pipeline: it remembers the visitors, answers one question itself and leaves the rest to the
// builtin agent, which uses a scripted model here.
#include <bub/bub.hpp>
#include <bub/builtin/builtin.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include <iostream>
#include <map>
#include <memory>
#include <string>

namespace {

bub::Plugin visitors() {
    auto seen = std::make_shared<std::map<std::string, int>>();
    bub::Plugin plugin;
    plugin.name = "visitors";
    plugin.load_state = [seen](bub::LoadStateCall& call) {
        cubepi::JsonObject values;
        values["visits"] = ++(*seen)[call.session_id];
        return values;
    };
    // No value: other plugins may answer.
    plugin.run_model = [](bub::RunModelCall& call) -> std::optional<std::string> {
        if (call.prompt.text() != "how often was I here?") return std::nullopt;
        return "This is visit " + cubepi::json_text(call.state.values.at("visits")) + ".";
    };
    plugin.on_error = [](bub::OnErrorCall& call) {
        std::cerr << call.stage << ": " << bub::describe(call.error) << '\n';
    };
    return plugin;
}

void say(bub::Framework& framework, std::string text) {
    bub::Envelope inbound(std::move(text));
    inbound.channel = "cli";
    inbound.chat_id = "local";
    const bub::TurnResult result = cubepi::run(framework.process_inbound(std::move(inbound)));
    for (const bub::Envelope& outbound : result.outbounds) {
        std::cout << outbound.content_text() << '\n';
    }
}

}  // namespace

int main() {
    cubepi::FauxProvider model;
    model.set_responses({"Good morning!"});
    bub::Framework framework;
    bub::BuiltinOptions options;
    options.model = model.model("scripted");
    options.tape_store = std::make_shared<bub::MemoryTapeStore>();
    options.with_user_skills = false;
    framework.add(bub::builtin_plugin(framework, std::move(options)));
    framework.add(visitors());  // called first: it was registered last
    say(framework, "good morning");
    say(framework, "how often was I here?");
}

#include "pipeline_worker.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include <bub/builtin/builtin.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/run.hpp>

#include "kill_at_write.hpp"

namespace cubepi::crash_tests {

namespace {

struct NoArgs {};

std::filesystem::path effects_in(const std::filesystem::path& directory) {
    return directory / "effects";
}

std::string leave_effect(const std::filesystem::path& file, const std::string& call_id) {
    step();
    const std::string line = call_id + "\n";
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) throw std::runtime_error("cannot write the effect");
    write_without_step(fd, line);
    close(fd);
    step();
    return "done: " + call_id;
}

AgentTool lasting_tool(const std::filesystem::path& directory) {
    return tool<NoArgs>("lasting", "Has an effect that lasts.",
                        [file = effects_in(directory)](NoArgs, ToolContext& context) {
                            return leave_effect(file, context.tool_call_id());
                        });
}

std::vector<FauxStep> script() {
    ContentList<AssistantContent> two;
    two.emplace_back(faux_text("Two at once. "));
    two.push_back(faux_tool_call("lasting", JsonObject(), "c1"));
    two.push_back(faux_tool_call("lasting", JsonObject(), "c2"));
    std::vector<FauxStep> steps;
    steps.emplace_back(faux_assistant_message(std::move(two), stop_reason::tool_use));
    steps.emplace_back(faux_assistant_message(faux_tool_call("lasting", JsonObject(), "c3"),
                                              stop_reason::tool_use));
    steps.emplace_back("All done. ");
    return steps;
}

}  // namespace

std::shared_ptr<bub::FileTapeStore> tapes_in(const std::filesystem::path& directory) {
    bub::FileTapeOptions options;
    options.directory = directory / "tapes";
    options.sync = bub::TapeSync::never;
    return std::make_shared<bub::FileTapeStore>(std::move(options));
}

std::unique_ptr<bub::Framework> pipeline_in(const std::filesystem::path& directory,
                                            FauxProvider& faux) {
    bub::FrameworkOptions around;
    around.workspace = directory;
    auto framework = std::make_unique<bub::Framework>(std::move(around));
    bub::BuiltinOptions options;
    options.model = faux.model("offline");
    options.home = directory;
    options.tape_store = tapes_in(directory);
    options.with_user_skills = false;
    options.with_tools = false;
    options.tools.push_back(lasting_tool(directory));
    framework->add(bub::builtin_plugin(*framework, std::move(options)));
    return framework;
}

std::string say(bub::Framework& framework, const std::string& text) {
    bub::Envelope message(text);
    message.session_id = session_id;
    return run(framework.process_inbound(std::move(message), true)).model_output;
}

std::vector<std::string> calls_made(const std::filesystem::path& directory) {
    std::ifstream in(effects_in(directory));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

int run_pipeline_worker(const std::filesystem::path& directory, std::size_t kill_at) {
    FauxProvider faux;
    faux.set_responses(script());
    const std::unique_ptr<bub::Framework> framework = pipeline_in(directory, faux);
    arm(kill_at);
    (void)say(*framework, "Do three things.");
    disarm();
    return 0;
}

int run_handoff_worker(const std::filesystem::path& directory, std::size_t kill_at) {
    std::vector<FauxStep> steps;
    steps.emplace_back("Noted.");
    steps.push_back(faux_failure("the prompt is too long"));
    steps.emplace_back("The user wants Postgres.");
    steps.emplace_back("As you wish.");
    FauxProvider faux;
    faux.set_responses(std::move(steps));
    const std::unique_ptr<bub::Framework> framework = pipeline_in(directory, faux);
    (void)say(*framework, "Use Postgres.");
    arm(kill_at);
    (void)say(*framework, "Continue.");
    disarm();
    return 0;
}

}  // namespace cubepi::crash_tests

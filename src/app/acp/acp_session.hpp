#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <cubepi/acp/agent.hpp>
#include <cubepi/acp/questions.hpp>
#include <cubepi/acp/updates.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>

#include "../conversation/pipeline.hpp"
#include "../conversation/prompt_templates.hpp"

namespace cubepi::app {

/// A session of an editor: a conversation of the program whose front end is the editor. Its questions are those of the channel of the
/// plan. Used on one executor.
class EditorSession final : public AcpSession {
public:
    EditorSession(SessionPlan plan, std::shared_ptr<AcpEditor> editor, std::string id,
                  Executor executor);
    ~EditorSession() override;

    Task<AcpStop> prompt(AcpPrompt prompt) override;
    void cancel() noexcept override;
    Task<> replay() override;
    void announce() override;
    std::vector<AcpChoice> modes() const override;
    std::string mode() const override;
    Task<> set_mode(std::string id) override;
    std::vector<AcpOption> options() const override;
    Task<> set_option(std::string id, std::string value) override;
    Task<> close() override;

private:
    Pipeline::Parts pipeline_parts();
    AcpQuestions::Options question_options() const;
    Task<AcpStop> run(AcpPrompt prompt);
    Task<AcpPrompt> with_resources(AcpPrompt prompt);
    Task<> use_wanted_model();
    std::string model() const;
    void show(const AgentEvent& event, const Model* model);
    void send(JsonObject update);

    const std::shared_ptr<AcpEditor> editor_;
    const std::string id_;
    const std::shared_ptr<AcpUpdates> updates_;
    Pipeline pipeline_;
    const PromptTemplates templates_;
    const std::shared_ptr<AcpQuestions> questions_;
    BackgroundScope background_;
    std::string wanted_model_;  ///< from the next prompt on; empty: the current one
    bool has_title_;
    bool is_running_ = false;
    bool is_cancelled_ = false;                ///< the prompt that runs
    std::uint64_t cancels_ = 0;                ///< number of calls of cancel()
    std::optional<std::stop_source> reading_;  ///< resources of the prompt that runs
    AcpStop last_ = AcpStop::cancelled;
    AsyncEvent ended_;
};

/// Writes a line to standard error, which editors show in their logs.
void log_to_editor(const std::string& text);

}  // namespace cubepi::app

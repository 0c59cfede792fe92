#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/wire/decoding.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

// The Chat Completions API: its requests (chat_request.cpp) and answers (chat_decoder.cpp).

namespace cubepi::detail {

/// Members as received, to be sent back (D88): of a stored call, those that have no place in it (those of its function in a member
/// "function"); of an answer, those that servers expect back.
inline constexpr const char* chat_members_key = "chat_members";

/// Settings of the body in addition to the request.
struct OpenAIChatSettings {
    CapabilityDescriptor capability = {};  ///< the provider's settings for this model
    std::string_view base_url = {};        ///< tells compatible servers apart; outlives the call
    bool openai_endpoint = false;  ///< OpenAI's own, not a server that is compatible with it
    JsonObject extra_body = {};
    bool requires_thinking =
        false;  ///< the endpoint has refused a history without the thinking of earlier answers
};

/// Builds the body of POST /chat/completions, with notices about changes.
WireProtocol::Built build_openai_chat(const ModelRequest& request,
                                      const OpenAIChatSettings& settings);

/// Converts only the messages. `requires_thinking`: as in OpenAIChatSettings.
JsonArray openai_chat_messages(const ModelRequest& request, const CapabilityDescriptor& capability,
                               std::vector<Notice>& notices, bool requires_thinking = false);

/// Returns whether OpenAI's endpoint can enforce a JSON Schema for this model's answers (as of 2026-11: all but the
/// oldest).
bool openai_takes_response_format(std::string_view model_id);

/// An answer in the form of an unstreamed chat.completion.
JsonObject openai_chat_completion(const AssistantMessage& message);

/// Separates text from the thinking in a tag at its beginning (OpenAIOptions::thinking_tag). Pieces may be cut anywhere.
class ThinkingTag {
public:
    struct Parts {
        std::string_view thinking = {};
        std::string_view text = {};
    };

    /// An empty name: everything is text.
    explicit ThinkingTag(const std::string& name);
    /// Returns what is certain so far; valid until the next call.
    Parts add(std::string_view piece);
    /// Returns what is left at the end of the text. The next text may begin with the tag again.
    Parts finish();

private:
    enum class State : std::uint8_t { before, inside, after, text };

    std::string_view thinking(std::string_view piece);

    std::string open_;
    std::string close_;
    std::string pending_;  ///< may be the beginning of a tag
    std::string taken_;
    State state_;
    bool has_thinking_ = false;
};

struct OpenAIChatCallPiece;
class OpenAIChatChunkParser;

/// Reads the chunks of a Chat Completions stream (platform.openai.com/docs/api-reference/chat-streaming) as OpenAI
/// and compatible servers send them.
///
/// Blocks are in the order of the stream: text after a call or after thinking is a separate block. Open text ends
/// where a call begins; open thinking and calls end with the answer. A finish_reason does not end it: some servers
/// send one with every chunk.
class OpenAIChatDecoder final : public WireDecoder {
public:
    /// `accept_missing_finish` and `thinking_tag` as in OpenAIOptions.
    OpenAIChatDecoder(MessageAssembler& assembler, IdSource& ids,
                      bool accept_missing_finish = false, const std::string& thinking_tag = {});
    ~OpenAIChatDecoder() override;

    void decode(std::string_view event, std::string_view data, EventQueue& out) override;
    bool complete() const noexcept override { return finished_; }
    bool over() const noexcept override { return done_marker_; }
    void finish(EventQueue& out) override;

private:
    /// An open call.
    struct Call {
        std::int64_t wire_index = 0;
        std::int32_t index = 0;  ///< of the block
        std::string wire_id;     ///< the id from the endpoint, may be empty
        std::string name;
        bool has_arguments = false;
        JsonExtent extent = {};  ///< of the arguments
    };

    void apply(EventQueue& out);
    void note_details();
    void add_content(EventQueue& out);
    void add_thinking(std::string_view text, EventQueue& out);
    void add_content(ThinkingTag::Parts parts, EventQueue& out);
    void add_text(std::string_view text, bool refusal, EventQueue& out);
    void add_call(const OpenAIChatCallPiece& piece, EventQueue& out);
    void add_name(Call& call, std::string_view name);
    Call* find_call(const OpenAIChatCallPiece& piece);
    bool begins_another(const Call& call, const OpenAIChatCallPiece& piece) const;
    bool repeats(const Call& call, const OpenAIChatCallPiece& piece) const;
    Call& open_call(const OpenAIChatCallPiece& piece, EventQueue& out);
    std::string usable_id(std::string_view wire_id);
    void end_text(EventQueue& out);
    void end_thinking(EventQueue& out);
    void close_blocks(EventQueue& out);

    std::unique_ptr<OpenAIChatChunkParser> parser_;
    std::vector<Call> calls_;
    JsonArray thinking_details_;
    ThinkingTag tag_;
    std::string reason_;
    std::int32_t text_ = -1;
    std::int32_t thinking_ = -1;
    std::int32_t last_block_ = -1;
    bool text_is_refusal_ = false;
    bool accept_missing_finish_;
    bool finished_ = false;
    bool done_marker_ = false;
};

}  // namespace cubepi::detail

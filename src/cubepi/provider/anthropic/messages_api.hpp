#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

// The Messages API: its requests (request.cpp, messages.cpp) and answers (decoder.cpp).

namespace cubepi::detail {

/// Settings of the body in addition to the request.
struct AnthropicSettings {
    ModelProfile profile = {};
    CacheRetention cache_retention = CacheRetention::five_minutes;
    std::shared_ptr<const CacheMarkerPolicy> cache_policy = {};  ///< null: the default one
    JsonObject extra_body = {};
    bool compacts = false;                   ///< the endpoint does, if the request asks for it
    std::int64_t clear_tool_results_at = 0;  ///< AnthropicOptions::clear_tool_results_at
};

/// The beta feature without which the endpoint refuses a request to compact, and a history that it has compacted.
inline constexpr std::string_view compaction_beta = "compact-2026-01-12";

/// The beta feature without which the endpoint refuses to leave out tool results.
inline constexpr std::string_view context_editing_beta = "context-management-2025-06-27";

/// Builds the body of POST /v1/messages, with notices about changes.
WireProtocol::Built build_anthropic(const ModelRequest& request, const AnthropicSettings& settings);

/// An answer in the form of an unstreamed message.
JsonObject anthropic_message(const AssistantMessage& answer);

/// Returns whether a Claude model can enforce a JSON Schema (as of 2026-11).
bool claude_takes_response_format(const ModelProfile& profile, std::string_view model_id);

/// The messages of a request in the form of the Messages API.
struct AnthropicMessages {
    /// The blocks of `wire[message].content` that a message of the request became.
    struct Place {
        std::size_t message = 0;
        std::size_t first = 0;
        std::size_t last = 0;
    };

    JsonArray wire = {};
    /// The messages that are sent: without failed answers at the end that have no content.
    MessageList source = {};
    /// Per message of `source`; empty for a message without content to send.
    std::vector<std::optional<Place>> places = {};
    std::vector<Notice> notices = {};
};

/// Converts the messages. Answers keep the signatures of the endpoint (D13); results follow their calls directly
/// (D1). `with_compaction`: the model reads what the endpoint has compacted; otherwise the whole history stands for it.
AnthropicMessages anthropic_messages(const ModelRequest& request, bool with_compaction = true);

/// Returns whether the signatures and encrypted parts of an answer may be sent to the model of the request: the
/// endpoint of another vendor cannot read them. Claude models are one family at all clouds.
bool same_anthropic_family(const AssistantMessage& answer, const Model& model);

/// An answer's content as the endpoint would send it unstreamed.
JsonArray anthropic_content(const AssistantMessage& answer);

// Keys of stored data of the Messages API that has no place in CubePi's blocks (D13). Stored threads contain them:
// they never change.

/// Of a thinking block: the signature by which the endpoint recognizes its own thinking.
inline constexpr const char* signature_key = "signature";
/// Of a thinking block without text: the encrypted thinking.
inline constexpr const char* redacted_key = "redacted_data";
/// Of a text block: its sources.
inline constexpr const char* citations_key = "citations";
/// Of a message: blocks of an unknown kind (tools of the server), [{"before": n, "block": {...}}], each before block
/// n of the message.
inline constexpr const char* foreign_blocks_key = "anthropic_blocks";

/// Of a block: the members that have no place in it, as received, to be sent back (D88).
inline constexpr const char* anthropic_members_key = "anthropic_members";

class AnthropicEventParser;

/// Reads a stream of the Messages API (docs.claude.com, "Streaming Messages"), or an unstreamed message.
///
/// Blocks keep the endpoint's order; several may be open at the same time. Signatures and redacted thinking are
/// stored in the extra keys of the blocks (D13), blocks of an unknown kind in those of the message.
class AnthropicDecoder final : public WireDecoder {
public:
    AnthropicDecoder(MessageAssembler& assembler, IdSource& ids);
    ~AnthropicDecoder() override;

    void decode(std::string_view event, std::string_view data, EventQueue& out) override;
    bool complete() const noexcept override { return finished_; }
    bool over() const noexcept override { return over_; }
    void finish(EventQueue& out) override;

private:
    enum class Kind : std::uint8_t { text, thinking, call, foreign };

    /// An open block.
    struct Block {
        Kind kind = Kind::foreign;
        std::int64_t wire_index = -1;
        std::int32_t index = -1;  ///< in the message; -1 for an unknown one
        bool has_deltas = false;
        std::string signature = {};
        JsonArray citations = {};
        JsonObject members = {};     ///< of a text or thinking block, with no place in it
        JsonObject wire = {};        ///< an unknown block as received; of a call only its input
        std::string arguments = {};  ///< of an unknown block
        std::size_t before = 0;  ///< index of the block of the message that follows an unknown one
    };

    void apply_hot(EventQueue& out);
    void apply(std::string_view name, const JsonObject& event, EventQueue& out);
    void begin_message(const JsonObject& message, EventQueue& out);
    void whole_message(const JsonObject& message, EventQueue& out);
    void note_edits(const JsonObject& event);
    void end_message(const JsonObject& delta, EventQueue& out);
    void read_usage(const Json* usage);

    Block* find(std::int64_t wire_index);
    /// Throws Error (too_large) if too many are open.
    Block& new_block();
    Block& open_text(Kind kind, std::int64_t wire_index, EventQueue& out);
    void start_block(std::int64_t wire_index, const JsonObject& block, EventQueue& out);
    void start_call(std::int64_t wire_index, const JsonObject& block, EventQueue& out);
    void add(Block& block, std::string_view piece, EventQueue& out);
    void add_foreign(Block& block, const JsonObject& delta);
    void close(Block& block, EventQueue& out);
    void close(std::int64_t wire_index, EventQueue& out);
    void close_all(EventQueue& out);
    std::string usable_id(std::string_view id);

    std::unique_ptr<AnthropicEventParser> parser_;
    std::vector<Block> open_;
    std::vector<std::string> call_ids_;
    std::string response_id_;
    std::string reason_;
    std::size_t blocks_ = 0;  ///< in the message so far
    std::size_t foreign_blocks_ = 0;
    std::int64_t last_delta_ = -1;
    Usage answer_usage_ = {};
    Usage compaction_usage_ = {};
    bool finished_ = false;
    bool over_ = false;
};

}  // namespace cubepi::detail

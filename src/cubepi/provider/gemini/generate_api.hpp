#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/usage.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

// Gemini's generateContent (ai.google.dev/api/generate-content): its requests (request.cpp) and answers (decoder.cpp).

namespace cubepi::detail {

/// Settings of the body in addition to the request.
struct GeminiSettings {
    ModelProfile profile = {};
    JsonObject extra_body = {};
    /// False after the endpoint refused the signatures of earlier answers.
    bool sends_signatures = true;
};

/// Builds the body of streamGenerateContent, with notices about changes.
WireProtocol::Built build_gemini(const ModelRequest& request, const GeminiSettings& settings);

/// An answer in the form of an unstreamed response.
JsonObject gemini_response(const AssistantMessage& answer);

/// Returns the path of a streamed call below the base URL, with its query. Throws Error(invalid_argument) for an id that is
/// not a model or a resource name.
std::string gemini_path(std::string_view model_id);

// Keys of stored data that has no place in CubePi's blocks (D13, D88). Stored threads contain them: they never change.

/// Of a block: the members of its part that have no place in it, as received: `thoughtSignature` and unknown ones.
inline constexpr const char* gemini_members_key = "gemini_members";
/// Of a tool call: its id at the endpoint, which older models do not assign.
inline constexpr const char* gemini_call_id_key = "gemini_call_id";
/// Of a message: parts of a kind that has no block, [{"before": n, "part": {...}}], each before block n of the message.
inline constexpr const char* gemini_parts_key = "gemini_parts";
/// The member of a part by which a model recognizes its reasoning.
inline constexpr const char* thought_signature_key = "thoughtSignature";

/// Reads the chunks of a streamed answer, an unstreamed answer, or the array of chunks that servers send without alt=sse.
///
/// Parts with text are appended to the open block of their kind until a part has a signature, which ends its block; so the
/// blocks are those of the unstreamed answer. Some servers repeat "STOP" in every chunk, or begin with it: content after it
/// belongs to the answer, and it ends an answer without content only at the end of the stream.
class GeminiDecoder final : public WireDecoder {
public:
    GeminiDecoder(MessageAssembler& assembler, IdSource& ids) : WireDecoder(assembler, ids) {}

    void decode(std::string_view event, std::string_view data, EventQueue& out) override;
    bool complete() const noexcept override {
        return finished_ && (reason_ != stop_reason::stop || (pieces_ > 0 && !is_premature_));
    }
    bool over() const noexcept override { return false; }
    void finish(EventQueue& out) override;

private:
    enum class Kind : std::uint8_t { none, text, thinking };

    void read_chunk(const JsonObject& chunk, EventQueue& out);
    void read_candidate(const JsonObject& candidate, EventQueue& out);
    void read_part(const JsonObject& part, EventQueue& out);
    void add_text(Kind kind, std::string_view text, JsonObject members, EventQueue& out);
    void add_call(const JsonObject& call, JsonObject members, EventQueue& out);
    void add_image(const JsonObject& data, JsonObject members, EventQueue& out);
    void add_foreign(const JsonObject& part, EventQueue& out);
    void close(EventQueue& out, JsonObject members = {});
    void end(std::string_view reason, std::size_t pieces_before);
    void read_usage(const JsonObject& usage);
    std::string usable_id(std::string_view id);

    Kind open_ = Kind::none;
    std::int32_t index_ = -1;  ///< of the open block
    std::size_t blocks_ = 0;   ///< in the message so far
    std::size_t foreign_parts_ = 0;
    std::size_t pieces_ = 0;  ///< parts that had content
    std::vector<std::string> call_ids_;
    std::string response_id_;
    std::string reason_;
    bool finished_ = false;
    /// "STOP" came with the first content or before it: the server may repeat it in every chunk.
    bool is_premature_ = false;
    std::array<std::size_t, 3> metadata_bytes_{};
    TokenCount answer_tokens_;
    TokenCount thought_tokens_;
};

}  // namespace cubepi::detail

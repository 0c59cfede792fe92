#include <bub/channel/telegram/update.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include <bub/channel/shared/message_text.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/trimmed.hpp>

namespace bub::telegram {

namespace {

using cubepi::detail::array_member;
using cubepi::detail::integer_member;
using cubepi::detail::object_member;
using cubepi::detail::string_member;
using cubepi::detail::text_member;
using Kind = Incoming::Kind;

std::set<std::int64_t> ids_of(const std::vector<std::string>& texts, const char* list) {
    std::set<std::int64_t> ids;
    for (const std::string& text : texts) {
        const std::int64_t id = cubepi::detail::parsed_number<std::int64_t>(text).value_or(0);
        if (id == 0) {
            throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                                "the channel telegram needs numbers in '" + std::string(list) +
                                    "', not '" + text +
                                    "'; the bot tells a user who is not listed his id");
        }
        ids.insert(id);
    }
    return ids;
}

/// A kind of attachment, and the name and type of files that do not state theirs.
struct MediaKind {
    const char* key;
    MediaType type;
    const char* mime_type;
    const char* title;
};
constexpr MediaKind media_kinds[] = {
    // An animation has a copy of itself as a document.
    {"animation", MediaType::video, "video/mp4", "Animation"},
    {"document", MediaType::document, "application/octet-stream", "Document"},
    {"voice", MediaType::audio, "audio/ogg", "Voice message"},
    {"audio", MediaType::audio, "audio/mpeg", "Audio"},
    {"video", MediaType::video, "video/mp4", "Video"},
    {"video_note", MediaType::video, "video/mp4", "Video message"},
};

void add_note(Envelope& envelope, const std::string& note) {
    std::string& text = *envelope.content;
    if (!text.empty()) text += "\n";
    text += "[" + shared::one_line(note) + "]";
}

MediaType type_of(std::string_view mime_type, MediaType type) {
    if (type != MediaType::document) return type;
    if (mime_type.starts_with("image/")) return MediaType::image;
    if (mime_type.starts_with("audio/")) return MediaType::audio;
    return type;
}

void add_file(const JsonObject& file, const MediaKind& kind, JsonArray& files) {
    JsonObject stored;
    std::string mime_type = text_member(file, "mime_type");
    if (mime_type.empty()) mime_type = kind.mime_type;
    stored["type"] = to_string(type_of(mime_type, kind.type));
    stored["mime_type"] = mime_type;
    stored["filename"] = shared::one_line(text_member(file, "file_name"));
    stored["file_id"] = text_member(file, "file_id");
    stored["size"] = integer_member(file, "file_size").value_or(0);
    files.emplace_back(std::move(stored));
}

/// Sizes are listed from small to large, but this is not promised.
const JsonObject* largest_photo(const JsonArray& sizes) {
    const JsonObject* largest = nullptr;
    std::int64_t most = -1;
    for (const Json& one : sizes) {
        const JsonObject* const size = one.if_object();
        if (!size) continue;
        const std::int64_t pixels = integer_member(*size, "width").value_or(0) *
                                    integer_member(*size, "height").value_or(0);
        if (pixels > most) {
            most = pixels;
            largest = size;
        }
    }
    return largest;
}

std::string note_for(const MediaKind& kind, const JsonObject& file) {
    std::string note = kind.title;
    const std::string_view name = string_member(file, "file_name");
    if (!name.empty()) note += ": " + std::string(name);
    if (const auto seconds = integer_member(file, "duration"))
        note += ", " + std::to_string(*seconds) + " s";
    return note;
}

/// Returns a number in degrees, "52.52"; "?" if there is none.
std::string coordinate(const JsonObject& place, std::string_view key) {
    const Json* const value = place.if_contains(key);
    if (!value || !value->is_number()) return "?";
    char text[32] = {};
    const int size = std::snprintf(text, sizeof text, "%.6f", value->to_number<double>());
    std::string number(text, static_cast<std::size_t>(std::clamp(size, 0, 31)));
    number.erase(number.find_last_not_of('0') + 1);
    if (number.ends_with('.')) number.pop_back();
    return number;
}

void add_other(const JsonObject& message, Envelope& envelope) {
    if (const JsonObject* sticker = object_member(message, "sticker"))
        add_note(envelope, "Sticker " + text_member(*sticker, "emoji"));
    if (const JsonObject* contact = object_member(message, "contact"))
        add_note(envelope, "Contact: " + text_member(*contact, "first_name") + ", " +
                               text_member(*contact, "phone_number"));
    if (const JsonObject* place = object_member(message, "location"))
        add_note(envelope, "Location: " + coordinate(*place, "latitude") + ", " +
                               coordinate(*place, "longitude"));
}

/// Adds the files of a message to its envelope, and what a model cannot see as a note.
void add_media(const JsonObject& message, Envelope& envelope, JsonArray& files) {
    if (const JsonArray* sizes = array_member(message, "photo")) {
        constexpr MediaKind photo{"photo", MediaType::image, "image/jpeg", "Photo"};
        if (const JsonObject* largest = largest_photo(*sizes)) add_file(*largest, photo, files);
        if (envelope.content->empty()) add_note(envelope, "Photo");
    }
    for (const MediaKind& kind : media_kinds) {
        const JsonObject* const file = object_member(message, kind.key);
        if (!file) continue;
        add_file(*file, kind, files);
        add_note(envelope, note_for(kind, *file));
        break;
    }
    add_other(message, envelope);
}

}  // namespace

std::string text_of(const JsonObject& message) {
    const std::string_view text = string_member(message, "text");
    return text.empty() ? text_member(message, "caption") : std::string(text);
}

shared::Buttons keyboard_of(const JsonObject& message) {
    shared::Buttons buttons;
    const JsonObject* const markup = object_member(message, "reply_markup");
    const JsonArray* const rows = markup ? array_member(*markup, "inline_keyboard") : nullptr;
    if (!rows) return buttons;
    for (const Json& row : *rows) {
        if (!row.is_array()) continue;
        buttons.emplace_back();
        for (const Json& one : row.get_array()) {
            if (!one.is_object()) continue;
            shared::Button& button = buttons.back().emplace_back();
            button.label = text_member(one.get_object(), "text");
            button.data = text_member(one.get_object(), "callback_data");
        }
    }
    return buttons;
}

std::int64_t id_in(const JsonObject& object, std::string_view key) {
    const JsonObject* const member = object_member(object, key);
    return member ? integer_member(*member, "id").value_or(0) : 0;
}

void move_answer(Incoming& incoming, const JsonObject& card, JsonObject& origin) {
    const std::string named = shared::asking_chat(keyboard_of(card));
    std::int64_t chat = 0;
    (void)std::from_chars(named.data(), named.data() + named.size(), chat);
    if (chat <= 0 || incoming.place.chat <= 0) return;
    origin["question_chat"] = incoming.place.chat;
    incoming.place = ChatTarget();
    incoming.place.chat = chat;
}

JsonObject record_origin(Incoming& incoming, const Access& access, const std::string& name) {
    Envelope& envelope = incoming.envelope;
    const ChatTarget& place = incoming.place;
    const std::string chat = std::to_string(place.chat);
    envelope.channel = "telegram";
    envelope.chat_id = chat;
    envelope.session_id = "telegram:" + chat;
    if (place.thread != 0) *envelope.session_id += ":" + std::to_string(place.thread);
    envelope.from_operator = access.is_operator(incoming.user);
    envelope.context["sender_id"] = std::to_string(incoming.user);
    envelope.context["private_chat"] = place.chat > 0;
    JsonObject origin;
    origin["user"] = incoming.user;
    origin["chat"] = place.chat;
    if (place.thread != 0) origin["thread"] = place.thread;
    origin["name"] = name;
    return origin;
}

namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return cubepi::detail::lower_case(a) == cubepi::detail::lower_case(b);
}

/// Returns the part of a text that an entity marks; offsets are in UTF-16 units.
std::string_view part_of(std::string_view text, std::int64_t offset, std::int64_t length) {
    std::size_t begin = text.size();
    std::int64_t unit = 0;
    std::size_t at = 0;
    for (; at < text.size() && unit < offset + length;) {
        if (unit >= offset) begin = std::min(begin, at);
        const auto lead = static_cast<unsigned char>(text[at]);
        const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
        unit += size == 4 ? 2 : 1;
        at += size;
    }
    if (begin >= text.size()) return {};
    return text.substr(begin, std::min(at, text.size()) - begin);
}

/// A command that begins a message: "/approve@mybot c1".
struct SlashCommand {
    std::string name = {};
    std::string bot = {};   ///< lower case; empty: not named
    std::string tail = {};  ///< after the command
};

std::optional<SlashCommand> slash_command(std::string_view text) {
    if (!text.starts_with('/')) return std::nullopt;
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    std::string_view word = text.substr(1, end - 1);
    SlashCommand command;
    const std::size_t at = word.find('@');
    if (at != std::string_view::npos) {
        command.bot = word.substr(at + 1);
        word = word.substr(0, at);
    }
    command.name = word;
    command.tail = cubepi::detail::trimmed(text.substr(end));
    return command;
}

/// Returns true for the commands with which questions are answered.
bool answers_questions(const SlashCommand& command) {
    constexpr std::array<std::string_view, 4> names{"approve", "deny", "answer", "abandon"};
    return std::find(names.begin(), names.end(), command.name) != names.end();
}

/// Returns true for the commands about the session, with which a text begins that is passed on.
bool is_about_session(const SlashCommand& command) {
    constexpr std::array<std::string_view, 4> names{"stop", "todo", "goal", "tasks"};
    return std::find(names.begin(), names.end(), command.name) != names.end();
}

/// Returns true for the commands that need no name of the bot in a group: they are about what the bot does. Other bots have lists and
/// goals too.
bool is_ours(const SlashCommand& command) {
    return answers_questions(command) || command.name == "stop";
}

/// Returns the beginning of a text that its sender has not written, which says so; empty: the sender has. A command is read at the
/// beginning of a text only, so that such a text is none (B11).
std::string_view foreign_mark(const JsonObject& message) {
    for (const char* key : {"forward_origin", "forward_date", "forward_from", "forward_from_chat",
                            "forward_sender_name", "is_automatic_forward"}) {
        if (message.contains(key)) return "(forwarded) ";
    }
    return message.contains("via_bot") ? "(by another bot) " : "";
}

/// A message as an object, with what decides about it.
class MessageReader {
public:
    MessageReader(const JsonObject& message, const Access& access, const BotIdentity& bot,
                  const SentCards& cards, bool is_edit)
        : message_(message),
          access_(access),
          bot_(bot),
          cards_(cards),
          is_edit_(is_edit),
          foreign_mark_(foreign_mark(message)) {
        incoming_.user = id_in(message, "from");
        incoming_.place.chat = id_in(message, "chat");
        if (cubepi::detail::flag_member(message, "is_topic_message"))
            incoming_.place.thread = integer_member(message, "message_thread_id").value_or(0);
        text_ = text_of(message);
    }

    Incoming read() &&;

private:
    bool is_group() const { return incoming_.place.chat < 0; }
    bool is_own_text() const { return foreign_mark_.empty(); }
    bool is_comma_command() const { return is_own_text() && text_.starts_with(','); }
    bool is_addressed() const;
    bool is_mentioned() const;
    const JsonObject* replied() const;
    bool is_reply_to_bot() const;
    bool has_content() const;
    void read_command();
    void read_session_command();
    void read_text();
    void read_answer_by_reply();
    void set_origin();
    Incoming end(Kind kind) {
        incoming_.kind = kind;
        return std::move(incoming_);
    }

    const JsonObject& message_;
    const Access& access_;
    const BotIdentity& bot_;
    const SentCards& cards_;
    const bool is_edit_;
    const std::string_view foreign_mark_;
    std::string text_;
    std::optional<SlashCommand> command_;
    JsonObject origin_;
    Incoming incoming_;
};

/// Returns the message that is answered; null: none. In a topic each message refers to the one that created the topic.
const JsonObject* MessageReader::replied() const {
    const JsonObject* const replied = object_member(message_, "reply_to_message");
    return replied && !replied->contains("forum_topic_created") ? replied : nullptr;
}

bool MessageReader::is_reply_to_bot() const {
    return replied() && id_in(*replied(), "from") == bot_.id;
}

/// By an entity, never by a part of the text: a name may be a part of a word.
bool MessageReader::is_mentioned() const {
    for (const char* key : {"entities", "caption_entities"}) {
        const JsonArray* const entities = array_member(message_, key);
        if (!entities) continue;
        for (const Json& one : *entities) {
            const JsonObject* const entity = one.if_object();
            if (!entity) continue;
            const std::string_view type = string_member(*entity, "type");
            if (type == "text_mention" && id_in(*entity, "user") == bot_.id) return true;
            if (type != "mention") continue;
            const std::string_view name =
                part_of(text_, integer_member(*entity, "offset").value_or(0),
                        integer_member(*entity, "length").value_or(0));
            if (equal_ignoring_case(name, "@" + bot_.username)) return true;
        }
    }
    return false;
}

bool MessageReader::is_addressed() const {
    if (!is_group()) return true;
    if (command_ && equal_ignoring_case(command_->bot, bot_.username)) return true;
    if (command_ && is_ours(*command_) && command_->bot.empty()) return true;
    return is_mentioned() || is_reply_to_bot();
}

bool MessageReader::has_content() const {
    if (!text_.empty()) return true;
    for (const char* key : {"photo", "document", "voice", "audio", "video", "video_note",
                            "animation", "sticker", "location", "contact"}) {
        if (message_.contains(key)) return true;
    }
    return false;
}

Incoming MessageReader::read() && {
    const JsonObject* const from = object_member(message_, "from");
    if (!from || incoming_.place.chat == 0 || cubepi::detail::flag_member(*from, "is_bot") ||
        !has_content())
        return end(Kind::ignored);
    if (is_own_text()) command_ = slash_command(text_);
    const bool is_for_other_bot =
        command_ && !command_->bot.empty() && !equal_ignoring_case(command_->bot, bot_.username);
    if (is_for_other_bot) return end(Kind::ignored);
    incoming_.is_addressed = is_addressed();
    if (!access_.allows(incoming_.user, incoming_.place.chat, is_group()))
        return end(is_group() ? Kind::unknown_group : Kind::unknown_user);
    if (command_ && command_->name == "start" && !is_group()) return end(Kind::greeting);
    // A command that was executed is not executed again because its text has changed.
    const bool is_command = command_ || is_comma_command();
    if (is_edit_ && (is_command || !incoming_.is_addressed)) return end(Kind::ignored);
    JsonObject of_question;
    const bool may_answer = is_own_text() && !text_.empty();
    if (may_answer && is_reply_to_bot() && access_.approvers().contains(incoming_.user))
        move_answer(incoming_, *replied(), of_question);
    set_origin();
    origin_.insert(of_question.begin(), of_question.end());
    if (command_ && answers_questions(*command_)) {
        read_command();
    } else if (command_ && is_about_session(*command_) && incoming_.is_addressed) {
        read_session_command();
    } else if (is_own_text() && incoming_.is_addressed && is_reply_to_bot()) {
        read_answer_by_reply();
    }
    if (!incoming_.envelope.content) read_text();
    note_answer(incoming_.envelope);
    incoming_.envelope.rest[telegram_key] = std::move(origin_);
    return end(Kind::message);
}

void MessageReader::set_origin() {
    incoming_.envelope.is_active = incoming_.is_addressed;
    const std::string name = display_name(*object_member(message_, "from"));
    origin_ = record_origin(incoming_, access_, name);
    if (is_group()) origin_["message"] = integer_member(message_, "message_id").value_or(0);
    incoming_.envelope.context["sender"] = name;
}

void MessageReader::read_command() {
    incoming_.envelope.content =
        "," + command_->name + (command_->tail.empty() ? "" : " " + command_->tail);
}

/// A reply to the card of a question is an answer to it.
void MessageReader::read_answer_by_reply() {
    const std::int64_t card = integer_member(*replied(), "message_id").value_or(0);
    const bool was_sent = cards_.contains(SentCard{incoming_.place.chat, card});
    if (keyboard_of(*replied()).empty() && !was_sent) return;
    const std::optional<shared::QuestionMark> question = shared::question_in(text_of(*replied()));
    if (!question || text_.empty()) return;
    incoming_.envelope.answer = shared::answer_of_reply(*question, text_);
    incoming_.envelope.content = text_;
    origin_["question"] = card;
}

/// Returns the beginning of a message that is answered, and adds its files.
std::string quoted(const JsonObject& replied, JsonArray& files) {
    constexpr std::size_t max_quote_units = 500;
    Envelope quote(text_of(replied));
    add_media(replied, quote, files);
    const std::string whole = shared::shortened(*quote.content, max_quote_units);
    const std::string text(cubepi::detail::trimmed(whole));
    if (text.empty()) return {};
    const JsonObject* const from = object_member(replied, "from");
    return "[In reply to " + (from ? display_name(*from) : "a message") + ": " + text + "]\n";
}

/// The text begins with the command. What the message has in addition follows, unless it is a command without arguments.
void MessageReader::read_session_command() {
    Envelope& envelope = incoming_.envelope;
    envelope.content = "/" + command_->name;
    if (command_->name == "stop") return;
    JsonArray files;
    Envelope rest(command_->tail);
    add_media(message_, rest, files);
    const bool is_goal = command_->name == "goal" && !rest.content->empty();
    if (!rest.content->empty()) *envelope.content += " " + *rest.content;
    if (is_goal && replied() && *rest.content != "clear")
        *envelope.content += "\n" + std::string(cubepi::detail::trimmed(quoted(*replied(), files)));
    if (!files.empty()) origin_["files"] = std::move(files);
}

void MessageReader::read_text() {
    Envelope& envelope = incoming_.envelope;
    JsonArray files;
    envelope.content = text_;
    add_media(message_, envelope, files);
    if (!is_own_text()) {
        envelope.content->insert(0, foreign_mark_);
        // Nor is it an answer in a private chat (B24).
        envelope.rest[before_question_key] = true;
    }
    if (is_edit_) *envelope.content = "(edited) " + *envelope.content;
    // A comma introduces a command only at the beginning (B11), so a command of an operator stays as it is.
    const bool is_command = is_comma_command();
    if (is_group() && !is_command)
        *envelope.content = origin_["name"].as_string().c_str() + (": " + *envelope.content);
    if (replied() && !is_command) *envelope.content = quoted(*replied(), files) + *envelope.content;
    if (!files.empty()) origin_["files"] = std::move(files);
}

/// Parses the topic of a session id that record_origin() has made.
std::int64_t thread_of(std::string_view session_id, std::string_view chat) {
    const std::string prefix = "telegram:" + std::string(chat) + ":";
    std::int64_t thread = 0;
    if (session_id.starts_with(prefix)) {
        session_id.remove_prefix(prefix.size());
        (void)std::from_chars(session_id.data(), session_id.data() + session_id.size(), thread);
    }
    return thread;
}

}  // namespace

Access access_of(const TelegramChannelOptions& options) {
    return Access(ids_of(options.users, "users"), ids_of(options.chats, "chats"),
                  ids_of(options.operators, "operators"), ids_of(options.approvers, "approvers"));
}

std::string display_name(const JsonObject& user) {
    std::string name = text_member(user, "first_name");
    const std::string_view last = string_member(user, "last_name");
    if (!last.empty()) name += " " + std::string(last);
    const std::string_view username = string_member(user, "username");
    if (!username.empty()) name += " (@" + std::string(username) + ")";
    // A name must not look like another part of the context, whose form is key=value|key=value.
    std::replace_if(
        name.begin(), name.end(),
        [](unsigned char c) { return c == '|' || c == '=' || c == ':' || c < ' '; }, ' ');
    return std::string(cubepi::detail::trimmed(name));
}

std::optional<std::int64_t> update_id_of(const Json& update) {
    const JsonObject* const object = update.if_object();
    return object ? integer_member(*object, "update_id") : std::nullopt;
}

Incoming read_message(const JsonObject& update, const Access& access, const BotIdentity& bot,
                      const SentCards& cards) {
    if (const JsonObject* message = object_member(update, "message"))
        return MessageReader(*message, access, bot, cards, false).read();
    if (const JsonObject* edited = object_member(update, "edited_message"))
        return MessageReader(*edited, access, bot, cards, true).read();
    return Incoming();
}

ChatTarget target_of(const Envelope& message) {
    ChatTarget place;
    const std::string chat = message.chat_id.value_or("");
    const auto number = cubepi::detail::parsed_number<std::int64_t>(chat);
    place.chat = number.value_or(0);
    if (!number) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "'" + chat + "' is not the id of a Telegram chat");
    }
    const JsonObject* const origin = object_member(message.rest, telegram_key);
    place.thread = origin ? integer_member(*origin, "thread").value_or(0)
                          : thread_of(message.session_id.value_or(""), chat);
    return place;
}

}  // namespace bub::telegram

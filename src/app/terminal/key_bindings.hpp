#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "keys.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// An action of a key of the console, and the key that does it unless the user has chosen another one.
struct KeyAction {
    std::string_view name = {};  ///< in the configuration
    KeyCode code = KeyCode::text;
    std::string_view key = {};  ///< as the configuration names it
    std::string_view help = {};
};

/// The keys that the user has changed (D211). Letters, Enter, Tab, Esc, the arrows, Ctrl-C and Ctrl-D keep their meaning, so that no
/// configuration takes away the keys that stop an answer and leave.
class KeyBindings {
public:
    /// The actions that keys may have, in the order of `/help`.
    static std::span<const KeyAction> actions();

    /// `key`: `ctrl-e`, `alt-e`, `shift-tab`, `f5`; `action`: the name of a KeyAction, a command of the chat such as `/status`, or
    /// `none`. Throws Error(invalid_argument) that names what is expected.
    void set(std::string_view key, std::string_view action);

    /// A key at the beginning of some bytes.
    struct Found {
        Key key = {};
        std::size_t size = 0;  ///< in bytes
    };
    /// Returns the changed key with which `bytes` begin. Without `alt_letters` those of Alt and a letter are not used.
    std::optional<Found> find(std::string_view bytes, bool alt_letters) const;

    /// The name of the key that has this action: "Ctrl-O"; empty if none has it.
    TerminalText key_of(KeyCode code) const;
    /// The same of current(), or `otherwise`.
    static std::string hint(KeyCode code, std::string_view otherwise);
    /// The lines of `/help`: each action with its key, then the commands that have a key.
    std::string help() const;

    /// The keys of this process, which texts name; those of the defaults until set_current(). Used on the executor of the console.
    static const KeyBindings& current();
    static void set_current(KeyBindings bindings);

    friend bool operator==(const KeyBindings&, const KeyBindings&) = default;

private:
    struct Changed {
        std::string name = {};                ///< of the key
        Key key = {};                         ///< what it is now
        std::vector<std::string> bytes = {};  ///< that terminals send

        bool operator==(const Changed& other) const {
            return name == other.name && key.code == other.key.code && key.text == other.key.text;
        }
    };
    std::vector<Changed> changed_;
};

}  // namespace cubepi::app

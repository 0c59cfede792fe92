#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input_field.hpp"
#include "keys.hpp"

namespace cubepi::app {

/// The keys of vi for the text of a prompt: the modes insert and normal, and the commands of the latter (D172). In the mode insert
/// the caller edits as without this class and reports its keys. Without I/O.
class ViKeys {
public:
    enum class Outcome : std::uint8_t {
        unused,    ///< the key has its meaning outside of vi
        used,      ///< it has moved the cursor, changed the text, or begun a command
        restored,  ///< the same, and text is back that may have been pasted
        older,     ///< the entry of the history before the one that is shown
        newer,
        search,  ///< a search of the history begins
    };

    bool is_normal() const noexcept { return normal_; }
    /// A new text, in the mode insert.
    void begin(EditBuffer& buffer);
    /// Esc in the mode insert.
    void leave_insert(EditBuffer& buffer);
    /// Takes a key in the mode normal.
    Outcome press(const Key& key, EditBuffer& buffer);
    /// A key has edited the text in the mode insert.
    void note_insert(const Key& key);
    /// The text was changed otherwise, e.g. by a choice of the popup: the insertion cannot be repeated.
    void forget_insert() { recording_ = false; }
    /// Moves the cursor onto a character, as the mode normal needs it.
    void snap_cursor(EditBuffer& buffer) const;
    /// Changes the texts that can be put or inserted again.
    void change_texts(const std::function<std::string(const std::string&)>& change);

private:
    /// A place to which a motion leads.
    struct Target {
        std::size_t at = 0;
        bool is_linewise = false;
        bool is_inclusive = false;
    };
    struct Range {
        std::size_t from = 0;
        std::size_t to = 0;
        bool is_linewise = false;
    };

    Outcome command(std::string_view key, EditBuffer& buffer);
    Outcome with_argument(std::string_view key, EditBuffer& buffer);
    Outcome simple(char key, EditBuffer& buffer);
    Outcome change(char key, EditBuffer& buffer);
    Outcome move_or_operate(char key, EditBuffer& buffer);
    Outcome operate(const Range& range, EditBuffer& buffer);
    Outcome finish(EditBuffer& buffer, bool is_change);
    Outcome vertical(bool up, EditBuffer& buffer);
    std::optional<Target> motion(char key, const EditBuffer& buffer) const;
    std::optional<Target> find(std::string_view text, std::size_t at, char kind,
                               std::string_view wanted, bool again) const;
    Range range_to(const Target& target, const EditBuffer& buffer) const;
    void store(const EditBuffer& buffer, const Range& range);
    Outcome put(EditBuffer& buffer, bool before);
    Outcome repeat(EditBuffer& buffer);
    void begin_insert(EditBuffer& buffer, std::size_t at);
    void open_line(EditBuffer& buffer, bool below);
    void replace_character(std::string_view with, EditBuffer& buffer);
    void toggle_case(EditBuffer& buffer);
    void join(EditBuffer& buffer);
    std::size_t count() const noexcept;
    void clear_command();

    bool normal_ = false;
    std::size_t count_ = 0;           // 0: none was typed
    std::size_t operator_count_ = 0;  // before the operator
    char operator_ = 0;               // d, c, y; 0: none
    char waits_ = 0;                  // f, F, t, T, r, g, i, a: the next key is its argument
    char find_kind_ = 0;              // of the last f, F, t, T
    std::string find_text_;
    std::string stored_;  // deleted or yanked
    bool stored_lines_ = false;
    std::vector<Key> record_;  // the keys of the command, and of its insertion
    std::vector<Key> repeat_;  // the last change
    bool recording_ = false;   // an insertion that a command has begun
    bool replaying_ = false;
};

}  // namespace cubepi::app

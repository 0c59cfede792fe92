// Writes coding.json and languages.json: conversations with the tokens that the tokenizers of two vendors count for each request.
// Needs the npm packages gpt-tokenizer 4.0.0 and @anthropic-ai/tokenizer 0.0.4; see README.md.
//
// usage: node record.mjs        in this directory, of a repository whose files the conversation "coding" reads

import { countTokens as anthropicTokens } from "@anthropic-ai/tokenizer";
import { encode } from "gpt-tokenizer/encoding/o200k_base";
import { readFileSync, writeFileSync } from "node:fs";

const root = new URL("../../../", import.meta.url);
const counters = {
  o200k_base: (text) => encode(text, { allowedSpecial: "all" }).length,
  anthropic: anthropicTokens,
};
// Tokens of a message besides its texts, and those of system prompt and tools, which stay the same.
const perMessage = 4;
const perCall = 6;
const fixed = 600;

function lines(name, first, last) {
  return readFileSync(new URL(name, root), "utf8").split("\n").slice(first - 1, last).join("\n");
}

function tokensOf(message, count) {
  return message.content.reduce((sum, block) => {
    if (block.type === "text") return sum + count(block.text);
    return sum + perCall + count(block.name) + count(JSON.stringify(block.arguments));
  }, perMessage);
}

function record(name, messages) {
  const counts = Object.fromEntries(Object.entries(counters).map(([tokenizer, count]) => {
    let sum = fixed;
    const prompts = [];
    for (const message of messages) {
      if (message.role === "assistant") prompts.push(sum);
      sum += tokensOf(message, count);
    }
    return [tokenizer, prompts];
  }));
  const file = "{\n\"counts\": " + JSON.stringify(counts) + ",\n\"messages\": [\n" +
    messages.map((one) => JSON.stringify(one)).join(",\n") + "\n]\n}\n";
  writeFileSync(new URL(name, import.meta.url), file);
}

let number = 0;
const text = (words) => ({ type: "text", text: words });
const user = (words) => ({ role: "user", content: [text(words)] });
const says = (words) => ({ role: "assistant", content: [text(words)], stop_reason: "stop" });
function step(words, name, args, result) {
  const id = "call_" + String(++number).padStart(2, "0");
  const call = { type: "tool_call", id, name, arguments: args };
  return [
    { role: "assistant", content: words ? [text(words), call] : [call], stop_reason: "tool_use" },
    { role: "tool_result", tool_call_id: id, tool_name: name, content: [text(result)] },
  ];
}
function reads(path, first, last, words = "") {
  return step(words, "read", { path, offset: first, limit: last - first + 1 }, lines(path, first, last));
}

record("coding.json", [
  user("The summary of a compaction is sometimes longer than what it replaces. Find out where that is checked, and whether the check counts the part that is kept word for word. Do not change anything yet."),
  ...step("I begin with the directory.", "list", { path: "src/cubepi/middleware/compaction" }, "conversation_digest.cpp\nconversation_digest.hpp\nrecall_tool.cpp\nrecall_tool.hpp\nrecord.cpp\nrecord.hpp\nrequest_estimate.cpp\nrequest_estimate.hpp\nrun.cpp\nrun.hpp\nsummary.cpp\nsummary.hpp\n"),
  ...reads("src/cubepi/middleware/AGENTS.md", 1, 40),
  ...step("", "grep", { pattern: "not shorter", path: "src" }, "src/cubepi/middleware/compaction/run.cpp:478:            report.error = \"the summary is not shorter than what it replaces\";\nsrc/cubepi/middleware/compaction_test.cpp:431:    EXPECT_NE(text.find(\"not shorter\"), std::string::npos);\n"),
  ...reads("src/cubepi/middleware/compaction/request_estimate.cpp", 1, 140, "The comparison is in `compact`. It uses the estimate of messages, so I read that first."),
  ...reads("src/cubepi/middleware/compaction/run.hpp", 1, 64),
  says("The check compares half of the bytes of the summary with the estimate of the messages that it replaces. The part that is kept word for word is added afterwards, so it is not counted. It is bounded separately: by a quarter of the limit, or 64,000 bytes without a limit."),
  user("Good. What does the documentation promise about failures? And is there a test for a summary that is longer?"),
  ...reads("docs/guides/middleware/compaction.md", 1, 80),
  ...step("", "shell", { command: "build/dev/bin/cubepi_middleware_test --gtest_filter='Compaction.D112*'" }, "Note: Google Test filter = Compaction.D112*\n[==========] Running 6 tests from 1 test suite.\n[----------] Global test environment set-up.\n[----------] 6 tests from Compaction\n[ RUN      ] Compaction.D112_EmptySummary_IsAFailure\n[       OK ] Compaction.D112_EmptySummary_IsAFailure (3 ms)\n[ RUN      ] Compaction.D112_LongSummary_IsAFailure\n[       OK ] Compaction.D112_LongSummary_IsAFailure (4 ms)\n[ RUN      ] Compaction.D112_LateSummary_IsAFailure\n[       OK ] Compaction.D112_LateSummary_IsAFailure (2 ms)\n[ RUN      ] Compaction.D112_FiveOutlines_TryTheModelAgain\n[       OK ] Compaction.D112_FiveOutlines_TryTheModelAgain (11 ms)\n[----------] 6 tests from Compaction (26 ms total)\n[==========] 6 tests from 1 test suite ran. (26 ms total)\n[  PASSED  ] 6 tests.\n"),
  ...reads("src/cubepi/middleware/compaction_test_support.hpp", 20, 110),
  says("Yes: `D112_LongSummary_IsAFailure`. The guide says that a summary longer than what it replaces is a failure, and what follows from failures."),
  user("Now show me how the recorded databases describe a thread, I want a fixture for this."),
  ...step("", "read", { path: "tests/conformance/databases/answered.json" }, lines("tests/conformance/databases/answered.json", 1, 120).slice(0, 5000)),
  ...reads("tests/conformance/README-fixtures.md", 38, 70),
  ...step("The build files must know the fixture, too.", "read", { path: "tests/conformance/CMakeLists.txt" }, lines("tests/conformance/CMakeLists.txt", 1, 80)),
  ...step("", "shell", { command: "git log --oneline -12 -- src/cubepi/middleware" }, "996c17e8 Include what recall reads of a run\n41b2ad06 Shorten results from their whole text after a refusal\n0f6c2e95 Read a record of CubePi that has no tokens\n5be310aa Keep the last request of the user in a summary\n93d1c7f2 Count thinking that servers drop\n2f0ab9c4 Report a window that a server does not name\n7d5528e1 Bound the verbatim part of a summary\n68f3e0bb Continue a run whose summary was aborted\n1c4e7a90 Forget a window that the server refutes\nb7702d3f Restore the prompt of the last request\ne04c86d5 Add the tool recall\n5a9f1b3c Add CompactionMiddleware\n"),
  ...reads("tools/check-interchange", 1, 40),
  ...step("", "edit", { path: "tests/conformance/databases/long-summary.json", old: "", new: "{\n  \"kind\": \"database\",\n  \"about\": \"a thread whose summary is longer than the messages that it replaces\",\n  \"threads\": {\n    \"t\": {\"messages\": 14, \"extra\": {\"compaction_until_msg_index\": 6, \"compaction_failures\": 1}}\n  }\n}\n" }, "created tests/conformance/databases/long-summary.json (9 lines)"),
  ...step("", "shell", { command: "ninja -C build/dev conformance_runner 2>&1 | tail -20" }, "ninja: Entering directory `build/dev'\n[1/9] Building CXX object tests/conformance/CMakeFiles/conformance_runner.dir/runner/database_kind.cpp.o\nFAILED: tests/conformance/CMakeFiles/conformance_runner.dir/runner/database_kind.cpp.o\n/usr/bin/ccache /usr/bin/g++-12 -DBOOST_ASIO_NO_DEPRECATED -DBOOST_JSON_STANDALONE -I../../src -isystem /usr/include -std=c++20 -O1 -g -Wall -Wextra -Wpedantic -Werror -fcoroutines -o runner/database_kind.cpp.o -c ../../tests/conformance/runner/database_kind.cpp\n../../tests/conformance/runner/database_kind.cpp:143:27: error: 'class cubepi::Checkpointer' has no member named 'load_summary'; did you mean 'load'?\n  143 |     const auto loaded = store->load_summary(thread);\n      |                                ^~~~~~~~~~~~\n      |                                load\nninja: build stopped: subcommand failed.\n"),
  ...reads("src/cubepi/agent/checkpointer.hpp", 1, 90, "That call does not exist. I look up the interface of the stores."),
  says("A store has no such call: the summary is in `extra`, which `load` returns with the messages. I will read it from there."),
  user("Do that, and run the check."),
  ...step("", "edit", { path: "tests/conformance/runner/database_kind.cpp", old: "const auto loaded = store->load_summary(thread);", new: "const std::optional<cubepi::CheckpointData> loaded = co_await store->load(thread);" }, "edited tests/conformance/runner/database_kind.cpp (1 replacement)"),
  ...step("", "shell", { command: "build/dev/bin/conformance_runner --check tests/conformance/databases/*.json" }, "23 of 23 hold\n"),
  says("All 23 databases hold, with the new one."),
]);

record("languages.json", [
  user("Wir planen die Wartung der Pumpen für das kommende Jahr. Bitte lies zuerst die Berichte und fasse sie für mich zusammen, möglichst knapp, aber mit allen Zahlen."),
  ...step("", "read", { path: "berichte/pumpe-1.md" }, "# Pumpe 1\n\nDie Pumpe lief im letzten Jahr 6.412 Stunden ohne Unterbrechung. Die Dichtung am Einlauf wurde am 14. März erneuert, weil sie an zwei Stellen Wasser verlor. Seitdem beträgt der Druck am Auslauf gleichmäßig 4,2 bar. Die Lager zeigen leichte Spuren von Abrieb, liegen aber noch weit innerhalb der Grenzwerte des Herstellers. Empfohlen wird eine Prüfung der Kupplung vor Beginn der Heizperiode, spätestens im September.\n"),
  ...step("", "read", { path: "berichte/pumpe-2.md" }, "# Pumpe 2\n\nDie zweite Pumpe stand wegen eines Schadens am Motor vom 3. bis zum 19. Mai still. Der Motor wurde getauscht; die Rechnung über 3.870 Euro liegt bei den Unterlagen. Nach dem Einbau traten ungewöhnliche Schwingungen auf, deren Ursache eine falsch ausgerichtete Welle war. Die Ausrichtung wurde am 2. Juni mit einem Messgerät wiederholt, seitdem läuft die Anlage ruhig. Der Stromverbrauch sank um etwa sieben Prozent.\n"),
  ...step("", "read", { path: "berichte/pumpe-3.md" }, "# Pumpe 3\n\nPumpe 3 dient als Reserve und lief nur 211 Stunden. Bei der jährlichen Prüfung fiel auf, dass die Steuerung beim Einschalten gelegentlich eine Störung meldet, die nach einem zweiten Versuch verschwindet. Ein Austausch der Steuerung kostet nach Auskunft des Lieferanten rund 1.200 Euro und dauert einen halben Tag. Wir empfehlen, den Austausch mit der Wartung von Pumpe 1 zu verbinden.\n"),
  says("Pumpe 1: 6.412 Stunden, Dichtung im März erneuert, Druck 4,2 bar, Kupplung bis September prüfen. Pumpe 2: Stillstand vom 3. bis 19. Mai, neuer Motor für 3.870 Euro, Welle neu ausgerichtet, Verbrauch minus sieben Prozent. Pumpe 3: Reserve, 211 Stunden, Steuerung meldet Störungen, Austausch rund 1.200 Euro."),
  user("Danke. Der Lieferant aus Osaka hat auch geschrieben. Was steht in seiner Nachricht, und wann kann er liefern?"),
  ...step("", "read", { path: "post/osaka.txt" }, "いつもお世話になっております。ご注文いただいた制御装置につきまして、ご連絡いたします。現在、部品の一部が不足しており、出荷は当初の予定より二週間ほど遅れる見込みです。新しい出荷予定日は十月十五日でございます。なお、価格は以前お伝えした金額から変更ございません。保証期間は納品日から二年間となります。ご不便をおかけして申し訳ございませんが、何卒よろしくお願い申し上げます。\n"),
  says("Der Lieferant meldet, dass Teile fehlen. Die Steuerung wird etwa zwei Wochen später geliefert, voraussichtlich am 15. Oktober. Der Preis bleibt gleich, die Garantie beträgt zwei Jahre ab Lieferung."),
  user("Gibt es auch etwas von unserem Werk in Suzhou?"),
  ...step("", "read", { path: "post/suzhou.txt" }, "各位同事，苏州工厂的三号水泵在上周的检查中发现轴承温度偏高，最高达到八十五度。我们已经更换了润滑油，并把运行时间缩短到每天六小时。根据目前的数据，温度已经回落到六十八度左右，暂时不需要停机。建议在十一月的检修中更换轴承，预计费用为九千元人民币，工期两天。如果总部能够提供备用水泵，检修可以提前到十月底进行。请在本月二十日之前答复。\n"),
  ...step("", "write", { path: "plan.md", content: "# Wartungsplan\n\n| Anlage | Arbeit | Termin | Kosten |\n|---|---|---|---|\n| Pumpe 1 | Kupplung prüfen | September | offen |\n| Pumpe 3 | Steuerung tauschen | nach dem 15. Oktober | 1.200 Euro |\n| Suzhou 3 | Lager tauschen | Ende Oktober oder November | 9.000 Yuan |\n" }, "created plan.md (7 lines)"),
  says("Ja. Dort wurde das Lager der dritten Pumpe bis zu 85 Grad warm; nach einem Ölwechsel sind es 68 Grad. Es soll im November getauscht werden, für 9.000 Yuan in zwei Tagen, oder Ende Oktober, wenn wir eine Ersatzpumpe schicken. Sie bitten um Antwort bis zum 20. Der Plan steht in `plan.md`."),
  user("Напиши, пожалуйста, короткий ответ нашему партнёру в Казани: мы переносим осмотр насосов на конец октября, потому что новая система управления придёт позже, чем мы ожидали."),
  ...step("", "write", { path: "post/kazan.txt", content: "Уважаемые коллеги!\n\nСообщаем вам, что осмотр насосов переносится на конец октября. Новая система управления поступит позже, чем мы ожидали: поставщик назвал пятнадцатое октября. Точную дату мы сообщим, как только получим подтверждение. Просим вас до этого времени не останавливать второй насос. Благодарим за понимание.\n" }, "created post/kazan.txt (3 lines)"),
  says("Готово: письмо лежит в файле `post/kazan.txt`."),
]);

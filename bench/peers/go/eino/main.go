// eino's agent development kit at the "2+1" run, with the least model that its interface allows. Prints one JSON object.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
)

const (
	batches  = 20
	runs     = 200
	sessions = 500
	deltas   = 10_000
)

type echoArguments struct {
	Value string `json:"value"`
}

func echo(_ context.Context, arguments echoArguments) (string, error) { return arguments.Value, nil }

// scripted streams a text and a call of the tool, and its pieces when the tool has answered; without a call the pieces alone.
type scripted struct {
	call   bool
	pieces []*schema.Message
}

func piecesOf(count int, text string) []*schema.Message {
	pieces := make([]*schema.Message, count)
	for i := range pieces {
		pieces[i] = schema.AssistantMessage(text, nil)
	}
	return pieces
}

func (m *scripted) Generate(context.Context, []*schema.Message, ...model.Option) (*schema.Message, error) {
	return nil, errors.New("this model only streams")
}

func (m *scripted) Stream(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	if !m.call || input[len(input)-1].Role == schema.Tool {
		return schema.StreamReaderFromArray(m.pieces), nil
	}
	index := 0
	call := schema.ToolCall{Index: &index, ID: "c1", Type: "function",
		Function: schema.FunctionCall{Name: "echo", Arguments: `{"value":"a"}`}}
	return schema.StreamReaderFromArray([]*schema.Message{
		schema.AssistantMessage("Look", nil), schema.AssistantMessage("", []schema.ToolCall{call})}), nil
}

func (m *scripted) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return m, nil }

type peer struct {
	model  *scripted
	tools  []tool.BaseTool
	events int
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func (p *peer) agent(ctx context.Context) *adk.Runner {
	agent := must(adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{Name: "a", Description: "a", Model: p.model,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: p.tools}}}))
	return adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent, EnableStreaming: true})
}

// run prompts once, counts each event and each piece of a stream, and gives the messages of the session.
func (p *peer) run(ctx context.Context, agent *adk.Runner) []*schema.Message {
	history := []*schema.Message{schema.UserMessage("hi")}
	events := agent.Run(ctx, history)
	for {
		event, more := events.Next()
		if !more {
			return history
		}
		must(0, event.Err)
		p.events++
		if event.Output == nil || event.Output.MessageOutput == nil {
			continue
		}
		output := event.Output.MessageOutput
		if !output.IsStreaming {
			history = append(history, output.Message)
			continue
		}
		var pieces []*schema.Message
		for {
			piece, err := output.MessageStream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			p.events++
			pieces = append(pieces, must(piece, err))
		}
		history = append(history, must(schema.ConcatMessages(pieces)))
	}
}

// clock begins to measure: the time on the wall, or what this process used of the CPU where that is less, as on a busy machine.
func clock() func() time.Duration {
	runtime.GC()
	wall, cpu := time.Now(), used()
	return func() time.Duration { return min(time.Since(wall), used()-cpu) }
}

func used() time.Duration {
	var seen syscall.Rusage
	must(0, syscall.Getrusage(syscall.RUSAGE_SELF, &seen))
	return time.Duration(seen.Utime.Nano() + seen.Stime.Nano())
}

func best(times int, work func() time.Duration) float64 {
	least := work()
	for i := 1; i < times; i++ {
		least = min(least, work())
	}
	return float64(least.Nanoseconds()) / 1e3
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var seen runtime.MemStats
	runtime.ReadMemStats(&seen)
	return float64(seen.HeapAlloc + seen.StackInuse)
}

func main() {
	if len(os.Args) > 1 { // a start and nothing else
		fmt.Println("eino")
		return
	}
	ctx := context.Background()
	p := &peer{model: &scripted{call: true, pieces: piecesOf(10, "4444")}}
	p.tools = []tool.BaseTool{must(utils.InferTool("echo", "Says it again.", echo))}
	p.run(ctx, p.agent(ctx))
	seen := map[string]float64{}
	seen["run"] = best(batches, func() time.Duration {
		agents := make([]*adk.Runner, runs)
		for i := range agents {
			agents[i] = p.agent(ctx)
		}
		p.events = 0
		elapsed := clock()
		for _, agent := range agents {
			p.run(ctx, agent)
		}
		return elapsed() / runs
	})
	seen["events"] = float64(p.events) / runs
	seen["construct"] = best(batches, func() time.Duration {
		elapsed := clock()
		for range runs {
			p.agent(ctx)
		}
		return elapsed() / runs
	})
	before := heap()
	agents := make([]*adk.Runner, sessions)
	for i := range agents {
		agents[i] = p.agent(ctx)
	}
	seen["idle"] = (heap() - before) / sessions
	// One agent serves all sessions: a session is its messages.
	before = heap()
	kept := make([][]*schema.Message, sessions)
	for i := range kept {
		kept[i] = p.run(ctx, agents[0])
	}
	seen["session"] = (heap() - before) / sessions
	runtime.KeepAlive(agents)
	runtime.KeepAlive(kept)
	p.model.call, p.model.pieces = false, piecesOf(deltas, "xxxx")
	seen["delta"] = best(3, func() time.Duration {
		agent := p.agent(ctx)
		elapsed := clock()
		p.run(ctx, agent)
		return elapsed()
	}) / deltas
	must(0, json.NewEncoder(os.Stdout).Encode(seen))
}

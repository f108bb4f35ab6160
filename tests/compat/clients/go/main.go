// Checks of the bridge with the client of this package. Prints a JSON line per check.
//
//	go run . PYTHON SCRIPT MODEL
//
// PYTHON is an interpreter with proxy-engine, SCRIPT is examples/bridge.py, and MODEL is the directory
// of a model.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

var (
	python, script, model string
	failures              int
)

func check(feature, how string, run func() error) {
	problem := ""
	if err := run(); err != nil {
		problem = err.Error()
		failures++
	}
	line, _ := json.Marshal(map[string]any{
		"feature": feature, "works": problem == "", "how": how, "problem": problem,
	})
	fmt.Println(string(line))
}

func expect(holds bool, what string, values ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(what, values...)
}

func loaded() (*bridge, error) {
	b, err := start(python, script)
	if err != nil {
		return nil, err
	}
	_, err = b.ask(command{Cmd: "load", Path: model})
	return b, err
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: go run . PYTHON SCRIPT MODEL")
		os.Exit(2)
	}
	python, script, model = os.Args[1], os.Args[2], os.Args[3]
	b, err := start(python, script)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	checkErrors(b)
	checkAnswers(b)
	check("cancel", "a running generation, then the next one", func() error { return cancelled(b) })
	check("quit", "no reply, exit status 0", func() error {
		if err := b.send(command{Cmd: "quit"}); err != nil {
			return err
		}
		lines, status := b.end()
		return expect(lines == 0 && status == 0, "%d lines, exit status %d", lines, status)
	})
	check("end of input", "commands written at once, then the input closed", pipelined)
	if failures > 0 {
		os.Exit(1)
	}
}

func checkErrors(b *bridge) {
	check("errors", "generate before load", func() error {
		_, _, err := b.stream(command{Cmd: "generate", Prompt: "x", options: &options{}}, nil)
		return expectError(err, "generate: ")
	})
	check("errors", "load of a directory that does not exist", func() error {
		_, err := b.ask(command{Cmd: "load", Path: "./none"})
		return expectError(err, "load: ")
	})
}

func expectError(err error, prefix string) error {
	if err == nil {
		return errors.New("no error")
	}
	return expect(strings.HasPrefix(err.Error(), prefix), "another error: %v", err)
}

func checkAnswers(b *bridge) {
	check("load", "path", func() error {
		got, err := b.ask(command{Cmd: "load", Path: model})
		if err != nil {
			return err
		}
		return expect(got.OK && got.ModelType != "" && got.VocabSize > 0, "got %+v", got)
	})
	check("info", "model_type, vocab_size, layers, hidden_size", func() error {
		got, err := b.ask(command{Cmd: "info"})
		if err != nil {
			return err
		}
		isWhole := got.ModelType != "" && got.VocabSize > 0 && got.Layers > 0 && got.HiddenSize > 0
		return expect(isWhole, "got %+v", got)
	})
	given := &options{MaxTokens: 24, Temperature: 0.7, TopP: 0.9, TopK: 40, RepeatPenalty: 1.1}
	check("generate", "prompt, sampling options", func() error {
		return answered(b, command{Cmd: "generate", Prompt: "Once upon a time", options: given})
	})
	question := []message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hello!"}}
	check("chat", "messages", func() error {
		return answered(b, command{Cmd: "chat", Messages: question, options: given})
	})
	check("structured output", "chat with response_format", func() error {
		format := json.RawMessage(`{"type": "object", "properties": {"ok": {"type": "boolean"}},
			"required": ["ok"], "additionalProperties": false}`)
		given := &options{MaxTokens: 60, ResponseFormat: format}
		text, _, err := b.stream(command{Cmd: "chat", Messages: question, options: given}, nil)
		if err != nil {
			return err
		}
		var value struct {
			OK *bool `json:"ok"`
		}
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return err
		}
		return expect(value.OK != nil, "got %s", text)
	})
}

func answered(b *bridge, given command) error {
	tokens := 0
	text, count, err := b.stream(given, func(string) { tokens++ })
	if err != nil {
		return err
	}
	return expect(text != "" && tokens > 0 && count == tokens, "%q, %d of %d", text, tokens, count)
}

func cancelled(b *bridge) error {
	given := command{Cmd: "generate", Prompt: "1, 2, 3, 4,", options: &options{MaxTokens: 4000}}
	isSent := false
	_, count, err := b.stream(given, func(string) {
		if !isSent {
			isSent = true
			b.send(command{Cmd: "cancel"})
		}
	})
	if err != nil {
		return err
	}
	if count >= 4000 {
		return errors.New("the generation was not cancelled")
	}
	return answered(b, command{Cmd: "generate", Prompt: "x", options: &options{MaxTokens: 3}})
}

func pipelined() error {
	b, err := start(python, script)
	if err != nil {
		return err
	}
	given := &options{MaxTokens: 5}
	b.send(command{Cmd: "load", Path: model})
	b.send(command{Cmd: "generate", Prompt: "x", options: given})
	b.send(command{Cmd: "info"})
	b.stdin.Close()
	var replies []response
	for {
		got, err := b.receive()
		if err != nil {
			break
		}
		replies = append(replies, got)
	}
	_, status := b.end()
	if len(replies) < 4 || status != 0 {
		return fmt.Errorf("%d replies, exit status %d", len(replies), status)
	}
	last := replies[len(replies)-2:]
	isInOrder := replies[0].OK && last[0].Done && last[1].Layers > 0
	return expect(isInOrder, "got %+v", replies)
}

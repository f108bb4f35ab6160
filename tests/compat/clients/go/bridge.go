// A client of the protocol of mlx-lm bridges (docs/bridge.md): a Python script in a subprocess, one
// JSON object a line, one command at a time.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
)

const maxLineBytes = 1 << 20

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type options struct {
	MaxTokens      int             `json:"max_tokens"`
	Temperature    float64         `json:"temperature"`
	TopP           float64         `json:"top_p"`
	TopK           int             `json:"top_k,omitempty"`
	RepeatPenalty  float64         `json:"repeat_penalty,omitempty"`
	ResponseFormat json.RawMessage `json:"response_format,omitempty"`
}

type command struct {
	Cmd      string    `json:"cmd"`
	Path     string    `json:"path,omitempty"`
	Prompt   string    `json:"prompt,omitempty"`
	Messages []message `json:"messages,omitempty"`
	*options
}

type response struct {
	OK              bool   `json:"ok"`
	Done            bool   `json:"done"`
	Error           string `json:"error"`
	Token           string `json:"token"`
	TokenID         int    `json:"token_id"`
	TokensGenerated int    `json:"tokens_generated"`
	ModelType       string `json:"model_type"`
	VocabSize       int    `json:"vocab_size"`
	Layers          int    `json:"layers"`
	HiddenSize      int    `json:"hidden_size"`
}

type bridge struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Scanner
	writing sync.Mutex
}

func start(python, script string) (*bridge, error) {
	process := exec.Command(python, "-u", script)
	process.Stderr = os.Stderr
	stdin, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(make([]byte, 64*1024), maxLineBytes)
	return &bridge{process: process, stdin: stdin, stdout: scanner}, process.Start()
}

func (b *bridge) send(given command) error {
	line, err := json.Marshal(given)
	if err != nil {
		return err
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	_, err = b.stdin.Write(append(line, '\n'))
	return err
}

// receive returns the next line. A line that is no response, or that reports an error, is an error.
func (b *bridge) receive() (response, error) {
	var got response
	if !b.stdout.Scan() {
		if err := b.stdout.Err(); err != nil {
			return got, err
		}
		return got, io.EOF
	}
	if err := json.Unmarshal(b.stdout.Bytes(), &got); err != nil {
		return got, err
	}
	if got.Error != "" {
		return got, errors.New(got.Error)
	}
	return got, nil
}

func (b *bridge) ask(given command) (response, error) {
	if err := b.send(given); err != nil {
		return response{}, err
	}
	return b.receive()
}

// stream sends a command and reads tokens until the last line. It returns their texts and number.
func (b *bridge) stream(given command, onToken func(string)) (string, int, error) {
	if err := b.send(given); err != nil {
		return "", 0, err
	}
	text := ""
	for {
		got, err := b.receive()
		if err != nil {
			return text, 0, err
		}
		if got.Done {
			return text, got.TokensGenerated, nil
		}
		text += got.Token
		if onToken != nil {
			onToken(got.Token)
		}
	}
}

// end closes the input and returns the number of remaining lines and the exit status.
func (b *bridge) end() (int, int) {
	b.stdin.Close()
	lines := 0
	for b.stdout.Scan() {
		lines++
	}
	b.process.Wait()
	return lines, b.process.ProcessState.ExitCode()
}

import json
import os
import tempfile

import lm_eval
from lm_eval.tasks import TaskManager
from reporting import MODEL, URL, check, run

DIRECTORY = tempfile.mkdtemp()
LINES = [
    {"question": "The sky is", "choices": [" blue", " made of cheese and ham"], "label": 0},
    {"question": "Two and two are", "choices": [" nine hundred zebras", " four"], "label": 1},
]
TASKS = {
    "choices": {
        "output_type": "multiple_choice",
        "doc_to_text": "question",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "label",
        "metric_list": [{"metric": "acc"}],
    },
    "likelihood": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{question}}{{choices[label]}}",
        "metric_list": [{"metric": "byte_perplexity"}],
    },
    "writing": {
        "output_type": "generate_until",
        "doc_to_text": "question",
        "doc_to_target": "{{choices[label]}}",
        "generation_kwargs": {"until": ["."], "max_gen_toks": 8},
        "metric_list": [{"metric": "exact_match"}],
    },
}


def results_of(name):
    """Run one of the tasks with its own data and the server's tokenizer."""
    data = os.path.join(DIRECTORY, "data.jsonl")
    with open(data, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in LINES)
    task = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": data}},
        "test_split": "test",
        **TASKS[name],
    }
    arguments = {
        "model": MODEL,
        "base_url": f"{URL}/completions",
        "tokenizer": os.environ["COMPAT_TOKENIZER"],
        "tokenizer_backend": "huggingface",
        "num_concurrent": 1,
        "max_retries": 1,
    }
    found = lm_eval.simple_evaluate(
        model="local-completions",
        model_args=arguments,
        tasks=[task],
        task_manager=TaskManager(include_defaults=False),
        bootstrap_iters=0,
    )
    return found["results"][name]


@check("log-likelihoods", "local-completions, multiple_choice with echo and logprobs")
def choices():
    assert results_of("choices")["acc,none"] == 1.0


@check("rolling log-likelihoods", "local-completions, loglikelihood_rolling")
def likelihood():
    assert 1 < results_of("likelihood")["byte_perplexity,none"] < 20


@check("text", "local-completions, generate_until")
def writing():
    assert "exact_match,none" in results_of("writing")


run()

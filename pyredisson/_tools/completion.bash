%(complete_func)s() {
    local response completion type value typed escape='\' quoted=${COMP_WORDS[COMP_CWORD]}
    # The words as the shell reads them: COMP_WORDS is split at colons as well.
    response=$(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1" 2>/dev/null)
    typed=${COMP_LINE:0:COMP_POINT}
    typed=${typed##*[[:space:]]}
    COMPREPLY=()
    while IFS= read -r completion; do
        type=${completion%%%%,*}
        value=${completion#*,}
        if [[ $type == dir ]]; then
            compopt -o dirnames
        elif [[ $type == file ]]; then
            compopt -o default
        elif [[ $type == plain ]]; then
            if [[ $quoted == "'"* ]]; then
                value=${value//"'"/"'$escape''"}
            elif [[ $quoted == '"'* ]]; then
                value=${value//"$escape"/"$escape$escape"}
                value=${value//'"'/"$escape"'"'}
                value=${value//'$'/"$escape"'$'}
                value=${value//'`'/"$escape"'`'}
            else
                printf -v value '%%q' "$value"
                if [[ $COMP_WORDBREAKS == *:* && $typed == *:* ]]; then
                    value=${value#"${typed%%"${typed##*:}"}"}
                fi
            fi
            COMPREPLY+=("$value")
        fi
    done <<< "$response"
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
